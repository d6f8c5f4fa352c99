package filestorageextension

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// These constants describe the layout of a bbolt file, which consists of pages. Pages 0 and 1 are
// meta pages. If both meta pages are valid, the one with the newer transaction is current. The
// current meta page refers to the root of a tree of buckets. Each bucket is a tree of branch pages
// and leaf pages. Content that does not fit into one page continues in the following pages, which
// are called overflow pages.
const (
	pageHeader    = 16 // Contains the ID, the flags, the number of elements, and the number of overflow pages.
	branchElement = 16 // Contains the position and size of the key, and the ID of the child page.
	leafElement   = 16 // Contains the flags, the position and size of the key, and the size of the value.
	metaSize      = 64
	bucketHeader  = 16 // Contains the ID of the root page, and the sequence.

	metaMagic   = 0xED0CDAED
	metaVersion = 2

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketFlag   = 0x01

	noFreelist = ^uint64(0)

	minPageSize, maxPageSize = 1 << 10, 1 << 16
)

var order = binary.LittleEndian

// errDamaged means that the database in a file is damaged and cannot be used.
var errDamaged = errors.New("the storage file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// meta contains those fields of a meta page that the check function needs.
type meta struct {
	pageSize             int64
	root, freelist, high uint64
	transaction          uint64
}

// file is a database file that is being checked.
type file struct {
	from io.ReaderAt
	size int64
	meta
	seen map[uint64]bool
}

// The check function returns an error that wraps errDamaged if the database in f is damaged, and
// other errors if f cannot be read. An empty file is valid, because bbolt creates a database in an
// empty file.
func check(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	d := &file{from: f, size: info.Size(), seen: map[uint64]bool{}}
	if err := d.readMeta(); err != nil {
		return err
	}
	if d.freelist != noFreelist {
		if err := d.readFreelist(); err != nil {
			return err
		}
	}
	return d.tree(d.root, nil)
}

// readMeta finds the current meta page and copies its fields to d.meta.
func (d *file) readMeta() error {
	first, ok := d.metaAt(0)
	if ok {
		if second, ok := d.metaAt(first.pageSize); ok && second.transaction > first.transaction {
			first = second
		}
	}
	for size := int64(minPageSize); !ok && size <= maxPageSize; size *= 2 {
		if first, ok = d.metaAt(size); ok && first.pageSize != size {
			ok = false
		}
	}
	if !ok {
		return damaged("neither of the two meta pages is valid")
	}
	// The file must also contain all free pages, because bbolt stores new content in free pages,
	// and derives the size of its memory map from the size of the file.
	if d.meta = first; uint64(d.size/d.pageSize) < d.high {
		return damaged("the file has %d bytes, which is less than %d pages", d.size, d.high)
	}
	return nil
}

// metaAt reads the meta page at offset, and reports whether the page is valid.
func (d *file) metaAt(offset int64) (meta, bool) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := d.from.ReadAt(b, offset); err != nil {
		return meta{}, false
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8])
	m := meta{
		pageSize: int64(order.Uint32(b[8:])), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		high: order.Uint64(b[40:]), transaction: order.Uint64(b[48:]),
	}
	valid := order.Uint32(b) == metaMagic && order.Uint32(b[4:]) == metaVersion && order.Uint64(b[56:]) == sum.Sum64() &&
		m.pageSize >= minPageSize && m.pageSize <= maxPageSize
	return m, valid
}

// The page method reads a page and its overflow pages. If one of the pages was read before, an
// error is returned, because each page may be used only once.
func (d *file) page(id uint64) ([]byte, error) {
	header := make([]byte, pageHeader)
	if id < 2 || id >= d.high || int64(id) > d.size/d.pageSize {
		return nil, damaged("page %d is outside the file", id)
	}
	at := int64(id) * d.pageSize
	if at+pageHeader > d.size {
		return nil, damaged("page %d is cut off", id)
	}
	if _, err := d.from.ReadAt(header, at); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	overflow := uint64(order.Uint32(header[12:]))
	length := int64(1+overflow) * d.pageSize
	switch {
	case order.Uint64(header) != id:
		return nil, damaged("page %d has the page number %d in its header", id, order.Uint64(header))
	case id+overflow >= d.high || at+length > d.size:
		return nil, damaged("page %d is cut off", id)
	}
	for i := range 1 + overflow {
		if d.seen[id+i] {
			return nil, damaged("page %d is used twice", id+i)
		}
		d.seen[id+i] = true
	}
	b := make([]byte, length)
	if _, err := d.from.ReadAt(b, at); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}

func (d *file) readFreelist() error {
	b, err := d.page(d.freelist)
	if err != nil {
		return err
	}
	count, first := uint64(order.Uint16(b[10:])), uint64(pageHeader)
	if count == 0xFFFF { // the count does not fit into the header, so it is stored in the first element
		count, first = order.Uint64(b[pageHeader:]), pageHeader+8
	}
	if order.Uint16(b[8:]) != freelistPage || count > (uint64(len(b))-first)/8 {
		return damaged("page %d is not a list of free pages", d.freelist)
	}
	return nil
}

// The tree method checks the tree whose root is the page with the given ID. No key in the tree may
// be less than the lowest parameter.
func (d *file) tree(id uint64, lowest []byte) error {
	b, err := d.page(id)
	if err != nil {
		return err
	}
	return d.elements(id, b, lowest)
}

// The elements method checks the elements of a page and the subtrees to which the elements point.
func (d *file) elements(id uint64, b, lowest []byte) error {
	flags, count := order.Uint16(b[8:]), int(order.Uint16(b[10:]))
	if flags != branchPage && flags != leafPage {
		return damaged("page %d has the unknown flags %#x", id, flags)
	}
	if flags == branchPage && count == 0 || pageHeader+count*leafElement > len(b) {
		return damaged("page %d has %d elements", id, count)
	}
	for i := range count {
		at := pageHeader + i*leafElement
		e := b[at:]
		var position, keySize, valueSize uint64
		if flags == branchPage {
			position, keySize = uint64(order.Uint32(e)), uint64(order.Uint32(e[4:]))
		} else {
			position, keySize, valueSize = uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
		}
		if position < uint64((count-i)*leafElement) || position+keySize+valueSize > uint64(len(e)) {
			return damaged("element %d of page %d is outside the page", i, id)
		}
		key, value := e[position:position+keySize], e[position+keySize:position+keySize+valueSize]
		if order := bytes.Compare(key, lowest); order < 0 || order == 0 && i > 0 {
			return damaged("the keys of page %d are not in order", id)
		}
		lowest = key
		var err error
		switch {
		case flags == branchPage:
			err = d.tree(order.Uint64(e[8:]), key)
		case order.Uint32(e) == bucketFlag:
			err = d.bucket(id, value)
		case order.Uint32(e) != 0:
			err = damaged("element %d of page %d has unknown flags", i, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The bucket method checks a bucket, which is either a separate tree, or a single leaf page that is
// stored inside the bucket's value.
func (d *file) bucket(id uint64, value []byte) error {
	if len(value) < bucketHeader {
		return damaged("a bucket of page %d is cut off", id)
	}
	if root := order.Uint64(value); root != 0 {
		return d.tree(root, nil)
	}
	inside := value[bucketHeader:]
	if len(inside) < pageHeader || order.Uint16(inside[8:]) != leafPage {
		return damaged("a bucket of page %d is cut off", id)
	}
	return d.elements(id, inside, nil)
}
