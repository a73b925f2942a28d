package rest

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Optional is a query parameter of which it matters whether it was given.
type Optional[T any] struct {
	Value T
	Set   bool
}

// Schema describes the parameter as one of its value's type.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver is what huma parses the parameter into.
func (o *Optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet records whether the parameter was given. huma calls it.
func (o *Optional[T]) OnParamSet(isSet bool, _ any) { o.Set = isSet }
