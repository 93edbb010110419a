package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/freeport"
)

func TestBlocksAreGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 30 {
		block := freeport.Block(40)
		require.Len(t, block, 40)
		for i, port := range block {
			require.Equal(t, block[0]+i, port)
			require.False(t, seen[port], "%d is given twice", port)
			seen[port] = true
		}
	}
}

func TestAPortThatIsTakenIsNotGiven(t *testing.T) {
	for {
		taken := freeport.Block(1)[0] + 3
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(taken))
		if err != nil { // another process has it
			continue
		}
		defer l.Close()
		for range 10 {
			require.NotContains(t, freeport.Block(2), taken)
		}
		return
	}
}
