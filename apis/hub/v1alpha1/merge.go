package v1alpha1

import "reflect"

// merge returns settings with each single field that own has instead; own may be nil. Settings have a pointer to a
// struct for each thing that can be set, and these have fields that can be nil, some of them in embedded structs. The
// fields of both are shared with the result.
func merge[T any](settings, own *T) T {
	merged := *settings
	if own == nil {
		return merged
	}
	into, from := reflect.ValueOf(&merged).Elem(), reflect.ValueOf(own).Elem()
	for i := range into.NumField() {
		if from.Field(i).IsNil() {
			continue
		}
		one := reflect.New(into.Field(i).Type().Elem()) // the one that is shared stays as it is
		if !into.Field(i).IsNil() {
			one.Elem().Set(into.Field(i).Elem())
		}
		mergeFields(one.Elem(), from.Field(i).Elem())
		into.Field(i).Set(one)
	}
	return merged
}

func mergeFields(into, from reflect.Value) {
	for i := range into.NumField() {
		switch value := from.Field(i); {
		case into.Type().Field(i).Anonymous:
			mergeFields(into.Field(i), value)
		case !value.IsNil():
			into.Field(i).Set(value)
		}
	}
}
