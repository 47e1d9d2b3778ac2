package kinds

import (
	"hash/maphash"
	"math"
)

var seed = maphash.MakeSeed()

// digest folds JSON content into a number, which differs from process to process.
func digest(value any) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	switch v := value.(type) {
	case map[string]any:
		sum := uint64(len(v))
		for key, inner := range v {
			h.Reset()
			_, _ = h.WriteString(key)
			sum += h.Sum64() * (digest(inner)<<1 | 1)
		}
		return sum
	case []any:
		sum := uint64(len(v)) ^ 0x5bd1e995
		for _, inner := range v {
			sum = sum*0x9E3779B97F4A7C15 + digest(inner)
		}
		return sum
	case string:
		_, _ = h.WriteString(v)
		return h.Sum64()
	case int64:
		return uint64(v)*0xff51afd7ed558ccd + 3
	case float64:
		return math.Float64bits(v)*0xff51afd7ed558ccd + 4
	case bool:
		if v {
			return 0x517cc1b727220a95
		}
		return 0x2545F4914F6CDD1D
	}
	return 0x9e3779b97f4a7c15
}
