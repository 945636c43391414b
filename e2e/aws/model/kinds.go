package model

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the type of a value.
type kind int

const (
	anyKind kind = iota
	text
	number
	decimal
	boolean
	moment
	blob
)

// wrong says what was expected of a value that does not fit; empty if it does.
func (f field) wrong(l leaf) string {
	if l.of != anyKind && l.of != f.json() {
		return "Expecting " + f.json().String()
	}
	switch f.kind {
	case number:
		if _, err := strconv.ParseInt(l.text, 10, 64); err != nil {
			return "Expecting an integer"
		}
	case decimal:
		if _, err := strconv.ParseFloat(l.text, 64); err != nil {
			return "Expecting a number"
		}
	case boolean:
		if !strings.EqualFold(l.text, "true") && !strings.EqualFold(l.text, "false") {
			return "Expecting true or false"
		}
	case moment:
		if _, err := time.Parse(time.RFC3339, l.text); err != nil && l.of == anyKind {
			return "Expecting a time such as 2026-01-02T15:04:05Z"
		}
	case blob:
		if _, err := base64.StdEncoding.DecodeString(l.text); err != nil {
			return "Expecting base64"
		}
	case text, anyKind:
		if len(f.values) > 0 && !slices.Contains(f.values, l.text) {
			return "Expecting one of " + strings.Join(f.values, ", ")
		}
	}
	return ""
}

// json is the kind of the field's JSON value.
func (f field) json() kind {
	switch f.kind {
	case number, decimal, moment:
		return number
	case boolean:
		return boolean
	case text, blob, anyKind:
	}
	return text
}

// String names the kind for humans.
func (k kind) String() string {
	switch k {
	case number, decimal:
		return "a number"
	case boolean:
		return "true or false"
	case text, moment, blob, anyKind:
	}
	return "a string"
}
