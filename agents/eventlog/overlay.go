package eventlog

// overlay holds records that were put and are not written yet. It lies above the records
// of earlier callers, in the order of the calls.
type overlay[K comparable, V any] struct {
	below *overlay[K, V]
	keys  []K
	all   map[K]V
}

func (o *overlay[K, V]) get(key K) (v V, ok bool) {
	for ; o != nil; o = o.below {
		if v, ok = o.all[key]; ok {
			return v, true
		}
	}
	return v, false
}

func (o *overlay[K, V]) put(key K, v V) {
	if _, ok := o.all[key]; !ok {
		o.keys = append(o.keys, key)
	}
	if o.all == nil {
		o.all = map[K]V{}
	}
	o.all[key] = v
}

// each calls f with every record, the newest version of it, in some order.
func (o *overlay[K, V]) each(f func(K, V)) {
	seen := map[K]bool{}
	for ; o != nil; o = o.below {
		for _, key := range o.keys {
			if !seen[key] {
				seen[key] = true
				f(key, o.all[key])
			}
		}
	}
}

// sink moves all that o has to the one below.
func (o *overlay[K, V]) sink() {
	for _, key := range o.keys {
		o.below.put(key, o.all[key])
	}
}
