package store

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// newRegistry stores maps with string keys as {pairs: [{k, v}, …]}, sorted by key: users' keys may have
// dots and dollars, which are not names of members everywhere. (An array alone would not do: arrays in
// arrays are not supported everywhere either.)
func newRegistry() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterKindEncoder(reflect.Map, bson.ValueEncoderFunc(encodeMap))
	r.RegisterKindDecoder(reflect.Map, bson.ValueDecoderFunc(decodeMap))
	r.RegisterTypeEncoder(pairsType, bson.ValueEncoderFunc(encodePairs))
	r.RegisterTypeDecoder(pairsType, bson.ValueDecoderFunc(decodePairSet))
	r.RegisterTypeEncoder(ruleSpecType, bson.ValueEncoderFunc(encodeRuleSpec))
	r.RegisterTypeDecoder(ruleSpecType, bson.ValueDecoderFunc(decodeRuleSpec))
	return r
}

func encodeMap(ec bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
	if v.Type().Key().Kind() != reflect.String {
		return fmt.Errorf("encode %s: the key is not a string", v.Type())
	}
	if v.IsNil() {
		return w.WriteNull()
	}
	encoder, err := ec.LookupEncoder(v.Type().Elem())
	if err != nil {
		return err
	}
	outer, err := w.WriteDocument()
	if err != nil {
		return err
	}
	pairs, err := outer.WriteDocumentElement("pairs")
	if err != nil {
		return err
	}
	array, err := pairs.WriteArray()
	if err != nil {
		return err
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		element, err := array.WriteArrayElement()
		if err != nil {
			return err
		}
		pair, err := element.WriteDocument()
		if err != nil {
			return err
		}
		member, err := pair.WriteDocumentElement("k")
		if err != nil {
			return err
		}
		if err := member.WriteString(k.String()); err != nil {
			return err
		}
		if member, err = pair.WriteDocumentElement("v"); err != nil {
			return err
		}
		if err := encoder.EncodeValue(ec, member, v.MapIndex(k)); err != nil {
			return err
		}
		if err := pair.WriteDocumentEnd(); err != nil {
			return err
		}
	}
	if err := array.WriteArrayEnd(); err != nil {
		return err
	}
	return outer.WriteDocumentEnd()
}

func decodeMap(dc bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
	if r.Type() == bson.TypeNull {
		v.SetZero()
		return r.ReadNull()
	}
	decoder, err := dc.LookupDecoder(v.Type().Elem())
	if err != nil {
		return err
	}
	outer, err := r.ReadDocument()
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	for {
		_, member, err := outer.ReadElement()
		if errors.Is(err, bson.ErrEOD) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := decodePairs(dc, decoder, member, v); err != nil {
			return err
		}
	}
}

func decodePairs(dc bson.DecodeContext, decoder bson.ValueDecoder, r bson.ValueReader, into reflect.Value) error {
	array, err := r.ReadArray()
	if err != nil {
		return err
	}
	for {
		element, err := array.ReadValue()
		if errors.Is(err, bson.ErrEOA) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := decodePair(dc, decoder, element, into); err != nil {
			return err
		}
	}
}

func decodePair(dc bson.DecodeContext, decoder bson.ValueDecoder, r bson.ValueReader, into reflect.Value) error {
	pair, err := r.ReadDocument()
	if err != nil {
		return err
	}
	key := ""
	value := reflect.New(into.Type().Elem()).Elem()
	for {
		name, member, err := pair.ReadElement()
		if errors.Is(err, bson.ErrEOD) {
			into.SetMapIndex(reflect.ValueOf(key).Convert(into.Type().Key()), value)
			return nil
		}
		if err != nil {
			return err
		}
		if name == "k" {
			key, err = member.ReadString()
		} else {
			err = decoder.DecodeValue(dc, member, value)
		}
		if err != nil {
			return err
		}
	}
}
