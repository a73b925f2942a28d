package eventlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"slices"
)

// Schema version 3 acknowledged a commit when it was in a redo log, a file beside
// the database. After a kill, commits could be in the redo log that the database lacked.
//
// The file has two halves. A half is a sequence of records: a CRC-32C of the
// database's id and of what follows, the size of the body, the number of the
// commit (4, 4 and 8 bytes, little-endian), and the body, encoded statements.
// Records of earlier commits may follow the newest record.
const (
	redoVersion = 3       // the schema version that has a redo log
	redoSuffix  = "-redo" // follows the name of the database
	redoHalf    = 256 << 10
	redoHead    = 16
	maxRedo     = 1 << 40 // numbers above it are text
)

type redoRecord struct {
	number int64
	body   []byte
}

// takeOverRedo executes the commits of the redo log that the database lacks. It
// logs an error and keeps a copy of the file if some of them are damaged.
func (db *sqliteDB) takeOverRedo(ctx context.Context, logger *slog.Logger) error {
	var id string
	var applied int64
	if err := db.conn.QueryRowContext(ctx, "select id, applied from redo").Scan(&id, &applied); err != nil {
		return err
	}
	file, err := os.ReadFile(db.path + redoSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var records []redoRecord
	for half := range slices.Chunk(file[:min(len(file), 2*redoHalf)], redoHalf) {
		records = append(records, readRedo(half, id)...)
	}
	slices.SortFunc(records, func(a, b redoRecord) int { return int(a.number - b.number) })
	tx, err := db.begin(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.number <= applied {
			continue
		}
		if r.number != applied+1 {
			logger.Error("the redo log is damaged: the newest commits are lost; check the disk, and restore a backup if sessions lack events",
				"file", db.path+redoSuffix, "commits", records[len(records)-1].number-applied, "copy", keepDamaged(db.path+redoSuffix))
			break
		}
		all, err := decodeStatements(r.body)
		if err == nil {
			err = tx.exec(ctx, all, nil)
		}
		if err != nil {
			tx.rollback()
			return db.corrupt(fmt.Errorf("take over commit %d of %s: %w", r.number, db.path+redoSuffix, err))
		}
		applied = r.number
	}
	err = tx.exec(ctx, []statement{{"update redo set applied = $1", []any{applied}}}, nil)
	if err == nil {
		err = tx.commit(ctx)
	}
	if err != nil {
		tx.rollback()
	}
	return err
}

// readRedo returns the records of a half that have increasing numbers and a valid
// checksum for the database with this id. It skips damaged records.
func readRedo(half []byte, id string) (records []redoRecord) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	seed := crc32.Checksum([]byte(id), castagnoli)
	for last := int64(0); len(half) >= redoHead; {
		size := binary.LittleEndian.Uint32(half[4:])
		number := int64(binary.LittleEndian.Uint64(half[8:]))
		if number <= last || number > maxRedo || uint64(size) > uint64(len(half)-redoHead) ||
			crc32.Update(seed, castagnoli, half[4:redoHead+size]) != binary.LittleEndian.Uint32(half) {
			half = half[1:]
			continue
		}
		records = append(records, redoRecord{number, half[redoHead : redoHead+size]})
		half, last = half[redoHead+size:], number
	}
	return records
}

// The kinds of arguments in a record.
const (
	argNull = iota
	argInt
	argText
	argBytes
	argNilBytes
)

var errNoStatements = errors.New("the record does not contain statements")

// decodeStatements returns the statements in the body of a record: a count, then
// for each statement its text, the number of its arguments, and the arguments,
// each after a byte with its kind. Numbers are varints, and texts and byte slices
// follow their length.
func decodeStatements(b []byte) ([]statement, error) {
	d := &decoder{b: b}
	all := make([]statement, d.count())
	for i := range all {
		all[i].sql = string(d.bytes())
		all[i].args = make([]any, d.count())
		for k := range all[i].args {
			all[i].args[k] = d.arg()
		}
	}
	if d.bad || len(d.b) > 0 {
		return nil, errNoStatements
	}
	return all, nil
}

// decoder reads from b. After an error it returns zero values.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

// count reads the number of elements that follow, each of at least one byte.
func (d *decoder) count() int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(len(d.b)-n) {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

func (d *decoder) bytes() []byte {
	n := d.count()
	text := d.b[:n:n]
	d.b = d.b[n:]
	return text
}

func (d *decoder) arg() any {
	if len(d.b) == 0 {
		d.fail()
		return nil
	}
	kind := d.b[0]
	d.b = d.b[1:]
	switch kind {
	case argNull:
		return nil
	case argInt:
		v, n := binary.Varint(d.b)
		if n <= 0 {
			d.fail()
			return nil
		}
		d.b = d.b[n:]
		return v
	case argText:
		return string(d.bytes())
	case argBytes:
		return d.bytes()
	case argNilBytes:
		return []byte(nil)
	}
	d.fail()
	return nil
}
