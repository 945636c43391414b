package image_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/internal/release/image"
)

// program is the beginning of a binary for the machine: its header, and one segment of that type.
func program(t *testing.T, machine elf.Machine, segment elf.ProgType) []byte {
	t.Helper()
	const header, entry = 64, 56
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: header, Ehsize: header, Phentsize: entry, Phnum: 1,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var out bytes.Buffer
	for _, part := range []any{h, elf.Prog64{Type: uint32(segment)}} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// An image for arm64 has a binary for it that runs without any other file in the image.
func TestCheckStatic(t *testing.T) {
	for name, c := range map[string]struct {
		binary       []byte
		architecture string
		want         string
	}{
		"arm64":             {program(t, elf.EM_AARCH64, elf.PT_LOAD), "arm64", ""},
		"amd64":             {program(t, elf.EM_X86_64, elf.PT_LOAD), "amd64", ""},
		"the build host's":  {program(t, elf.EM_X86_64, elf.PT_LOAD), "arm64", "EM_X86_64, want EM_AARCH64"},
		"with a loader":     {program(t, elf.EM_AARCH64, elf.PT_INTERP), "arm64", "linked dynamically"},
		"with libraries":    {program(t, elf.EM_AARCH64, elf.PT_DYNAMIC), "arm64", "linked dynamically"},
		"another platform":  {program(t, elf.EM_RISCV, elf.PT_LOAD), "riscv64", "amd64 or arm64 is expected"},
		"not for Linux":     {[]byte("MZ"), "amd64", "no program of Linux"},
		"for nobody at all": {nil, "amd64", "no program of Linux"},
	} {
		err := image.CheckStatic(c.binary, c.architecture)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
