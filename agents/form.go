package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MethodForm is the ACP method of a [Form].
const MethodForm = "elicitation/create"

// The results of a form without answers.
var (
	formDeclined  = []byte(`{"action":"decline"}`)
	formCancelled = []byte(`{"action":"cancel"}`)
)

// Form is an agent's question to the user, which is not about permission: elicitation/create
// of ACP in the mode form. Its answer is a [Reply] with the Result that Answer returns.
type Form struct {
	Message   string         `json:"message"`
	Questions []FormQuestion `json:"questions"`
}

// FormQuestion is one question of a [Form].
type FormQuestion struct {
	Key      string       `json:"key"`              // of its answer
	Custom   string       `json:"custom,omitempty"` // the key of a text beside the options; empty: none
	Header   string       `json:"header,omitempty"` // a short name
	Text     string       `json:"question"`
	Type     string       `json:"type"`              // string, number, integer or boolean
	Options  []FormOption `json:"options,omitempty"` // none: any answer of the type
	Multiple bool         `json:"multiple,omitempty"`
}

// FormOption is an answer that a [FormQuestion] offers.
type FormOption struct {
	Value       string `json:"value"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// maxFormQuestions is how many questions of a form count. The log has all.
const maxFormQuestions = 64

// field is a property of a form's schema.
type field struct {
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Enum        []string    `json:"enum"`
	Names       []string    `json:"enumNames"`
	OneOf       []formConst `json:"oneOf"`
	AnyOf       []formConst `json:"anyOf"`
	Items       *field      `json:"items"`
}

type formConst struct {
	Const       string `json:"const"`
	Title       string `json:"title"`
	Description string `json:"description"`
}

// ParseForm returns the form of the params of elicitation/create.
func ParseForm(params json.RawMessage) (Form, error) {
	var p struct {
		Mode    string `json:"mode"`
		Message string `json:"message"`
		Schema  struct {
			Properties json.RawMessage `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return Form{}, fmt.Errorf("form: %w", err)
	}
	if p.Mode != "" && p.Mode != "form" {
		return Form{}, fmt.Errorf("form: the agent asks in the mode %.100q", p.Mode)
	}
	keys, fields, err := orderedFields(p.Schema.Properties)
	if err != nil {
		return Form{}, fmt.Errorf("form: %w", err)
	}
	f := Form{Message: p.Message, Questions: []FormQuestion{}}
	for i, key := range keys {
		of := strings.TrimSuffix(key, "_custom")
		if j := slices.IndexFunc(f.Questions, func(q FormQuestion) bool { return q.Key == of }); of != key && j >= 0 && fields[i].Type == "string" {
			f.Questions[j].Custom = key
		} else {
			f.Questions = append(f.Questions, fields[i].question(key))
		}
	}
	return f, nil
}

// orderedFields returns the properties of a schema in their order.
func orderedFields(properties json.RawMessage) (keys []string, fields []field, err error) {
	if len(properties) == 0 {
		return nil, nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(properties))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, nil, errors.Join(errors.New("the properties are not an object"), err)
	}
	for d.More() && len(keys) < maxFormQuestions {
		key, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var f field
		if err := d.Decode(&f); err != nil {
			return nil, nil, err
		}
		keys, fields = append(keys, key.(string)), append(fields, f)
	}
	return keys, fields, nil
}

func (f field) question(key string) FormQuestion {
	q := FormQuestion{Key: key, Header: f.Title, Text: f.Description, Type: f.Type}
	if f.Type == "array" && f.Items != nil {
		f.Enum, f.Names, f.OneOf, f.AnyOf = f.Items.Enum, f.Items.Names, f.Items.OneOf, f.Items.AnyOf
		q.Multiple, q.Type = true, "string"
	}
	for _, c := range append(f.OneOf, f.AnyOf...) {
		label := c.Title
		if label == "" {
			label = c.Const
		}
		q.Options = append(q.Options, FormOption{c.Const, label, c.Description})
	}
	for i, value := range f.Enum {
		o := FormOption{Value: value, Label: value}
		if i < len(f.Names) {
			o.Label = f.Names[i]
		}
		q.Options = append(q.Options, o)
	}
	if q.Type == "boolean" {
		q.Options = []FormOption{{Value: "true", Label: "Yes"}, {Value: "false", Label: "No"}}
	}
	q.Options = slices.Clone(q.Options[:min(len(q.Options), MaxOptions)]) // the others do not stay in memory
	return q
}

// Prompt returns the text of all questions.
func (f Form) Prompt() string {
	text := []string{f.Message}
	for _, q := range f.Questions {
		switch {
		case q.Text != "":
			text = append(text, q.Text)
		case len(f.Questions) > 1 && q.Header != "":
			text = append(text, q.Header)
		}
	}
	return strings.Join(text, "\n\n")
}

// Answer returns the result with the answers to the questions, in their order. An answer is a
// list of options, or of own words where the form takes them. An option is named by its value, or
// else by its label, or else by its label in other case. An empty list leaves its question out.
// Answer returns an [InvalidError] if an answer names no option or several, or has another type.
func (f Form) Answer(answers [][]string) (json.RawMessage, error) {
	return f.accept(answers, byValue, byLabel, byFoldedLabel)
}

// AnswerLabels is like Answer for a client that has the labels only: a label counts before a value.
func (f Form) AnswerLabels(answers [][]string) (json.RawMessage, error) {
	return f.accept(answers, byLabel, byValue, byFoldedLabel)
}

func byValue(o FormOption, text string) bool       { return o.Value == text }
func byLabel(o FormOption, text string) bool       { return o.Label == text }
func byFoldedLabel(o FormOption, text string) bool { return strings.EqualFold(o.Label, text) }

func (f Form) accept(answers [][]string, tests ...func(FormOption, string) bool) (json.RawMessage, error) {
	if len(answers) > len(f.Questions) {
		return nil, &InvalidError{"answers", fmt.Sprintf("must hold a list for each of %d questions, not %d", len(f.Questions), len(answers))}
	}
	content := map[string]any{}
	for i, given := range answers {
		if err := f.Questions[i].answer(given, content, tests); err != nil {
			return nil, &InvalidError{"answers", fmt.Sprintf("of question %d: %v", i+1, err)}
		}
	}
	return json.Marshal(map[string]any{"action": "accept", "content": content})
}

func (q FormQuestion) answer(given []string, content map[string]any, tests []func(FormOption, string) bool) error {
	chosen, own := []string{}, []string{}
	for _, text := range given {
		switch named := q.named(text, tests); len(named) {
		case 0:
			own = append(own, text)
		case 1:
			chosen = append(chosen, named[0])
		default:
			return fmt.Errorf("%.100q names several options", text)
		}
	}
	if len(q.Options) == 0 {
		chosen, own = own, nil
	}
	switch {
	case len(own) > 0 && q.Custom == "":
		return fmt.Errorf("there is no option %.100q; there are %s", own[0], q.labels())
	case len(chosen) > 1 && !q.Multiple:
		return errors.New("it takes one answer")
	}
	if len(own) > 0 {
		content[q.Custom] = strings.Join(own, ", ")
	}
	if q.Multiple && len(chosen) > 0 {
		content[q.Key] = chosen
		return nil
	}
	for _, text := range chosen {
		value, err := q.value(text)
		if err != nil {
			return err
		}
		content[q.Key] = value
	}
	return nil
}

// named returns the values of the options that pass the first test that any option passes.
func (q FormQuestion) named(text string, tests []func(FormOption, string) bool) (values []string) {
	for _, test := range tests {
		for _, o := range q.Options {
			if test(o, text) && !slices.Contains(values, o.Value) {
				values = append(values, o.Value)
			}
		}
		if len(values) > 0 {
			break
		}
	}
	return values
}

// value returns an answer as a value of the question's type.
func (q FormQuestion) value(text string) (any, error) {
	switch q.Type {
	case "boolean":
		return text == "true", nil
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%.100q is not a whole number", text)
		}
		return n, nil
	case "number":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n != n || n > 1e308 || n < -1e308 {
			return nil, fmt.Errorf("%.100q is not a number", text)
		}
		return n, nil
	}
	return text, nil
}

func (q FormQuestion) labels() string {
	var all []string
	for _, o := range q.Options {
		all = append(all, fmt.Sprintf("%.100q", o.Label))
	}
	return strings.Join(all, ", ")
}

// Answered returns the answers of a result in words, and whether the form was accepted.
func (f Form) Answered(result json.RawMessage) (text string, accepted bool) {
	var r struct {
		Action  string         `json:"action"`
		Content map[string]any `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil || r.Action != "accept" {
		return "", false
	}
	var all []string
	for _, q := range f.Questions {
		var one []string
		for _, value := range []any{r.Content[q.Key], r.Content[q.Custom]} {
			list, isList := value.([]any)
			if !isList {
				list = []any{value}
			}
			for _, v := range list {
				if v != nil {
					one = append(one, q.label(fmt.Sprint(v)))
				}
			}
		}
		all = append(all, strings.Join(one, ", "))
	}
	return strings.Join(all, "\n"), true
}

func (q FormQuestion) label(value string) string {
	for _, o := range q.Options {
		if o.Value == value {
			return o.Label
		}
	}
	return value
}
