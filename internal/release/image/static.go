package image

import (
	"bytes"
	"debug/elf"
	"fmt"
)

// machines maps the architectures that images are built for to ELF's names.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
}

// CheckStatic returns an error unless a binary is for the architecture and needs no other file: the image has no libraries.
func CheckStatic(binary []byte, architecture string) error {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("binary for %s is no program of Linux: %w", architecture, err)
	}
	want, known := machines()[architecture]
	if !known {
		return fmt.Errorf("architecture %s: amd64 or arm64 is expected", architecture)
	}
	if file.Machine != want {
		return fmt.Errorf("binary for %s is for %s, want %s", architecture, file.Machine, want)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("binary for %s is linked dynamically: it needs libraries that the image has not", architecture)
		}
	}
	return nil
}
