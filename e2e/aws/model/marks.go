package model

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
)

func isTime(v reflect.Value) bool { return v.Type() == reflect.TypeFor[time.Time]() }

// instanceTypes is the enumeration that EC2 itself checks: new values come faster than releases of the SDK.
const instanceTypes = "InstanceType"

// mark is the field that a value stands for.
type mark struct {
	field
	// inMap is true for a value of a map, whose keys may be anything.
	inMap bool
}

// marks fills inputs with values that identify their field on the wire. Booleans cannot: they are all true.
type marks struct {
	count  int
	fields map[string]mark
}

// next adds a new value.
func (m *marks) next(format func(n int) string, f mark) string {
	m.count++
	s := format(m.count)
	m.fields[s] = f
	return s
}

// fill sets every field below a value. types are those that contain it, which may occur in themselves.
func (m *marks) fill(v reflect.Value, types []reflect.Type) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), types)
	case reflect.Struct:
		m.fillStruct(v, types)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			s := m.next(func(n int) string { return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "b%d", n)) }, mark{field: field{kind: blob}})
			raw, _ := base64.StdEncoding.DecodeString(s)
			v.SetBytes(raw)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		m.fill(v.Index(0), types)
		if v.Index(0).IsZero() {
			v.SetZero()
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type().Elem().Kind() == reflect.String {
			value := reflect.New(v.Type().Elem()).Elem()
			value.SetString(m.next(func(n int) string { return "m" + strconv.Itoa(n) }, mark{field{kind: text}, true}))
			v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
		}
	default:
		m.fillScalar(v)
	}
}

func (m *marks) fillStruct(v reflect.Value, types []reflect.Type) {
	if isTime(v) {
		s := m.next(func(n int) string { return time.Unix(int64(n), 0).UTC().Format(time.RFC3339) }, mark{field: field{kind: moment}})
		at, _ := time.Parse(time.RFC3339, s)
		v.Set(reflect.ValueOf(at))
		return
	}
	for _, t := range types {
		if t == v.Type() {
			return
		}
	}
	types = append(slices.Clip(types), v.Type())
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			m.fill(v.Field(i), types)
		}
	}
}

func (m *marks) fillScalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.next(func(n int) string { return "s" + strconv.Itoa(n) }, mark{field: field{kind: text, values: allowed(v)}}))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		m.next(func(n int) string { v.SetInt(int64(1_000_000 + n)); return strconv.Itoa(1_000_000 + n) }, mark{field: field{kind: number}})
	case reflect.Float32, reflect.Float64:
		m.next(func(n int) string {
			v.SetFloat(float64(n) + 0.5)
			return strconv.FormatFloat(float64(n)+0.5, 'f', -1, 64)
		}, mark{field: field{kind: decimal}})
	default: // No input has other kinds.
	}
}

// allowed returns the values of an enumeration; nil for any string.
func allowed(v reflect.Value) []string {
	method := v.MethodByName("Values")
	if !method.IsValid() || v.Type().Name() == instanceTypes {
		return nil
	}
	list := method.Call(nil)[0]
	var out []string
	for i := range list.Len() {
		out = append(out, list.Index(i).String())
	}
	return out
}

// below returns the values, as they are on the wire, that were put below a field.
func (m *marks) below(v reflect.Value) []string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return m.below(v.Elem())
	case reflect.Struct:
		return m.belowStruct(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return []string{base64.StdEncoding.EncodeToString(v.Bytes())}
		}
		if v.Len() == 0 {
			return nil
		}
		return m.below(v.Index(0))
	case reflect.Map:
		for _, key := range v.MapKeys() {
			return []string{v.MapIndex(key).String()}
		}
	case reflect.String:
		return []string{v.String()}
	case reflect.Int32, reflect.Int64, reflect.Int:
		return []string{strconv.FormatInt(v.Int(), 10)}
	case reflect.Float32, reflect.Float64:
		return []string{strconv.FormatFloat(v.Float(), 'f', -1, 64)}
	default:
	}
	return nil
}

func (m *marks) belowStruct(v reflect.Value) []string {
	if isTime(v) {
		return []string{v.Interface().(time.Time).Format(time.RFC3339)}
	}
	var out []string
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			out = append(out, m.below(v.Field(i))...)
		}
	}
	return out
}
