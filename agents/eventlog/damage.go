package eventlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/bits"
	"os"
)

const (
	walSuffix = "-wal" // follows the name of the database

	walHead  = 32 // bytes of the file's header
	walFrame = 24 // bytes of a frame's header

	damagedSuffix = ".damaged" // follows the name of a file in the name of its copy
	damagedBytes  = 256 << 20  // the maximum size of a copy
)

// checkMissing returns an error if the database is absent or empty while its -wal file
// has commits: SQLite would create a new database and delete the -wal.
func checkMissing(path string) error {
	if size, err := sizeOf(path); err != nil || size > 0 {
		return err
	}
	size, err := sizeOf(path + walSuffix)
	if err == nil && size > 0 {
		err = &CorruptError{path, fmt.Errorf("%w or is empty, but %s, which belongs to it, exists", fs.ErrNotExist, path+walSuffix)}
	}
	return err
}

// sizeOf returns the size of a file, 0 if it is absent.
func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// reportDamage logs what SQLite is about to drop from a damaged -wal file, and
// keeps a copy of the file. It must be called before SQLite opens the database.
func reportDamage(path string, logger *slog.Logger) error {
	path += walSuffix
	size, err := sizeOf(path)
	if err != nil || size == 0 {
		return err
	}
	loss, err := readWAL(path)
	if err != nil || !loss.damaged {
		return err
	}
	logger.Error("the event log's write-ahead log is damaged: the commits from there on are lost; "+
		"check the disk, and restore a backup of the database if sessions lack events",
		"file", path, "offset", loss.offset, "frames", loss.frames, "transactions", loss.transactions, "copy", keepDamaged(path))
	return nil
}

// walLoss is the part of a damaged -wal file that SQLite ignores.
type walLoss struct {
	damaged      bool
	offset       int64 // of the first frame that is damaged; 0: the file's header
	frames       int   // from there to the end of the last transaction
	transactions int   // that end after the damage
}

// readWAL looks for damage in a -wal file: transactions of the newest generation
// after a frame whose checksum is wrong. If there are none, that frame is the end of
// the file: older frames follow, or the process was killed while it wrote the last
// transaction. See [the format].
//
// [the format]: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
func readWAL(path string) (loss walLoss, err error) {
	f, err := os.Open(path)
	if err != nil {
		return loss, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	head := make([]byte, walHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return loss, ignoreEOF(err)
	}
	sum := walSum{bigEndian: head[3]&1 == 1}
	sum.add(head[:24])
	good := binary.BigEndian.Uint32(head)&^1 == 0x377f0682 && sum.matches(head[24:])
	salt, size := head[16:24], binary.BigEndian.Uint32(head[8:])
	if size < 512 || size > 1<<16 || bits.OnesCount32(size) != 1 {
		loss.damaged = true // the size of a frame is not known
		return loss, nil
	}
	frame := make([]byte, walFrame+int(size))
	for n, first := 0, 0; ; n++ {
		if _, err := io.ReadFull(r, frame); err != nil {
			return loss, ignoreEOF(err)
		}
		if n == 0 && !good {
			salt, loss.damaged = bytes.Clone(frame[8:16]), true
		}
		same := bytes.Equal(frame[8:16], salt)
		if good {
			sum.add(frame[:8])
			sum.add(frame[walFrame:])
			if good = same && sum.matches(frame[16:]); !good {
				first, loss.offset = n, walHead+int64(n)*int64(len(frame))
			}
			continue
		}
		if same && binary.BigEndian.Uint32(frame[4:]) != 0 { // the last frame of a transaction
			loss.damaged = true
			loss.transactions++
			loss.frames = n - first + 1
		}
	}
}

// ignoreEOF returns nil for the end of a file.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// walSum is the checksum of a -wal file up to a frame.
type walSum struct {
	bigEndian bool
	a, b      uint32
}

func (s *walSum) add(data []byte) {
	for ; len(data) >= 8; data = data[8:] {
		x, y := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
		if s.bigEndian {
			x, y = bits.ReverseBytes32(x), bits.ReverseBytes32(y)
		}
		s.a += x + s.b
		s.b += y + s.a
	}
}

// matches reports whether the file has this checksum.
func (s *walSum) matches(stored []byte) bool {
	return s.a == binary.BigEndian.Uint32(stored) && s.b == binary.BigEndian.Uint32(stored[4:])
}

// keepDamaged copies a file that is about to be changed, and replaces an earlier
// copy. It returns the name of the copy, or "none: " and the error.
func keepDamaged(path string) string {
	name := path + damagedSuffix
	from, err := os.Open(path)
	if err == nil {
		defer from.Close()
		_ = os.Remove(name) // the name may be a link
		var to *os.File
		if to, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_, err = io.Copy(to, io.LimitReader(from, damagedBytes))
			err = errors.Join(err, to.Close())
		}
	}
	if err != nil {
		return "none: " + err.Error()
	}
	return name
}
