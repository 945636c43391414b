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

// wrong returns what was expected of an invalid value; empty for a valid one.
func (f field) wrong(l leaf) string {
	if l.of != anyKind && l.of != f.json() {
		return "Expecting " + f.json().String()
	}
	if len(f.values) > 0 && !slices.Contains(f.values, l.text) {
		return "Expecting one of " + strings.Join(f.values, ", ")
	}
	if f.kind == moment && l.of != anyKind {
		return "" // JSON has seconds since 1970.
	}
	if f.kind.parse(l.text) != nil {
		return "Expecting " + f.kind.wanted()
	}
	return ""
}

// parse reads a value of the kind.
func (k kind) parse(value string) error {
	var err error
	switch k {
	case number:
		_, err = strconv.ParseInt(value, 10, 64)
	case decimal:
		_, err = strconv.ParseFloat(value, 64)
	case boolean:
		_, err = strconv.ParseBool(strings.ToLower(value))
	case moment:
		_, err = time.Parse(time.RFC3339, value)
	case blob:
		_, err = base64.StdEncoding.DecodeString(value)
	case text, anyKind:
	}
	return err
}

// wanted returns how a value of the kind is written in a form.
func (k kind) wanted() string {
	switch k {
	case number:
		return "an integer"
	case moment:
		return "a time such as 2026-01-02T15:04:05Z"
	case blob:
		return "base64"
	case decimal, boolean, text, anyKind:
	}
	return k.String()
}

// json returns the kind of the field's JSON value.
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

// String returns the kind's name for users.
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
