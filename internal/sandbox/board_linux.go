package sandbox

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// board is where a child writes what it is at, for the parent that reads it once the child is dead: memory which both of
// them see. A frame for each note would wake the parent some ten times a chart, which took as long as rendering it.
//
// It has two slots of the number of the request and a text behind its length, and before them the number of notes
// written, which says which slot is the newest. So a child that dies while it writes a note leaves the one before.
type board struct{ file *os.File }

const (
	boardFile  = 3 // of a child
	countSize  = 4
	slotHeader = 8
	slotSize   = slotHeader + maxNote
	boardSize  = countSize + 2*slotSize
)

var order = binary.NativeEndian

// newBoard makes one. Nobody can change its size, not even a child that is out of control.
func newBoard() (board, error) {
	fd, err := unix.MemfdCreate("note", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return board{}, fmt.Errorf("share memory with a child: %w", err)
	}
	b := board{os.NewFile(uintptr(fd), "note")}
	if err = b.file.Truncate(boardSize); err == nil {
		_, err = unix.FcntlInt(b.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		b.close()
		return board{}, fmt.Errorf("share memory with a child: %w", err)
	}
	return b, nil
}

// files are what a child needs to write on the board.
func (b board) files() []*os.File { return []*os.File{b.file} }

func (b board) close() {
	if b.file != nil {
		_ = b.file.Close()
	}
}

// note is the last one of the request, "" when there is none. What is there may be anything: strangers' work ran beside it.
func (b board) note(request uint32) string {
	content := make([]byte, boardSize)
	if _, err := b.file.ReadAt(content, 0); err != nil {
		return ""
	}
	slot := slotOf(content, order.Uint32(content))
	if order.Uint32(slot) != request {
		return ""
	}
	n := min(order.Uint32(slot[4:]), maxNote)
	return strings.ToValidUTF8(string(slot[slotHeader:][:n]), "?")
}

func slotOf(memory []byte, count uint32) []byte {
	return memory[countSize+int(count%2)*slotSize:][:slotSize]
}

// noter gives the child's side of its board: a function that notes what a request is at.
func noter(*os.File) (func(request uint32, text string), error) {
	memory, err := unix.Mmap(boardFile, 0, boardSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		err = unix.Close(boardFile)
	}
	if err != nil {
		return nil, fmt.Errorf("share memory with the parent: %w", err)
	}
	var count uint32
	return func(request uint32, text string) {
		count++
		slot := slotOf(memory, count)
		order.PutUint32(slot, request)
		order.PutUint32(slot[4:], uint32(copy(slot[slotHeader:], text))) // #nosec G115 -- at most maxNote
		order.PutUint32(memory, count)
	}, nil
}
