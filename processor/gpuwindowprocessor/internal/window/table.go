package window

// none is the index of nothing.
const none = ^uint32(0)

// keyed is an item of a table, which knows its own key.
type keyed[K comparable] interface{ key() K }

// table interns items by key and counts the references to them. An index stays
// valid for as long as the item is referred to.
type table[K comparable, V keyed[K]] struct {
	index map[K]uint32
	items []V
	refs  []uint32
	free  []uint32
}

func newTable[K comparable, V keyed[K]]() table[K, V] {
	return table[K, V]{index: map[K]uint32{}}
}

// find returns the index of the item with that key, or none.
func (t *table[K, V]) find(k K) uint32 {
	if i, ok := t.index[k]; ok {
		return i
	}
	return none
}

// insert adds an item that the table does not hold, without a reference.
func (t *table[K, V]) insert(v V) uint32 {
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
		t.items[i] = v
	} else {
		i = uint32(len(t.items))
		t.items = append(t.items, v)
		t.refs = append(t.refs, 0)
	}
	t.index[v.key()] = i
	return i
}

func (t *table[K, V]) hold(i uint32) { t.refs[i]++ }

// release gives one reference back and reports whether it was the last: the
// item is then gone, and its former value returned for its own references.
func (t *table[K, V]) release(i uint32) (gone V, last bool) {
	t.refs[i]--
	if t.refs[i] > 0 {
		return gone, false
	}
	gone = t.items[i]
	delete(t.index, gone.key())
	var zero V
	t.items[i] = zero
	t.free = append(t.free, i)
	return gone, true
}

// live reports whether there is an item at i.
func (t *table[K, V]) live(i uint32) bool {
	return uint64(i) < uint64(len(t.items)) && t.refs[i] > 0
}

func (t *table[K, V]) len() int { return len(t.index) }

// runs stores many short lists of numbers in one slice.
type runs struct {
	data []uint32
	// free are the starts of unused lists by length.
	free map[int][]uint32
}

// add stores a list and returns where it starts.
func (r *runs) add(list []uint32) uint32 {
	n := len(list)
	if f := r.free[n]; len(f) > 0 {
		at := f[len(f)-1]
		r.free[n] = f[:len(f)-1]
		copy(r.data[at:], list)
		return at
	}
	at := uint32(len(r.data))
	r.data = append(r.data, list...)
	return at
}

// get returns the list of n numbers that starts at at.
func (r *runs) get(at uint32, n int) []uint32 { return r.data[at : int(at)+n] }

// remove gives the list of n numbers at at back.
func (r *runs) remove(at uint32, n int) {
	if n > 0 {
		r.free[n] = append(r.free[n], at)
	}
}
