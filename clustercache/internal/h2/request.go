package h2

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ofConnection are headers that have no meaning for a stream, or are written in another way.
var ofConnection = []string{"host", "connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive", "content-length", "trailer", "te"}

// headerOf returns what is sent of a request before its body, and whether its answer may come compressed without the caller knowing.
func headerOf(request *http.Request, asItIs bool) (header []hpack.HeaderField, unzips bool, err error) {
	if request.URL == nil {
		return nil, false, errors.New("the request has no address")
	}
	host := request.Host
	if host == "" {
		host = request.URL.Host
	}
	if host, err = httpguts.PunycodeHostPort(host); err != nil || !httpguts.ValidHostHeader(host) {
		return nil, false, fmt.Errorf("the request has no valid host: %w", err)
	}
	if request.Header.Get("Upgrade") != "" {
		return nil, false, errors.New("HTTP/2 knows no upgrades")
	}
	method := request.Method
	if method == "" {
		method = http.MethodGet
	}
	header = make([]hpack.HeaderField, 0, len(request.Header)+7)
	add := func(name, value string) { header = append(header, hpack.HeaderField{Name: name, Value: value}) }
	add(":authority", host)
	add(":method", method)
	add(":path", request.URL.RequestURI())
	add(":scheme", request.URL.Scheme)
	for name, values := range request.Header {
		lower := strings.ToLower(name)
		if slices.Contains(ofConnection, lower) {
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, false, fmt.Errorf("the request has a header with an invalid name: %q", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, false, fmt.Errorf("the header %q of the request has an invalid value", name) // which may be secret
			}
			add(lower, value)
		}
	}
	hasBody := request.Body != nil && request.Body != http.NoBody
	switch {
	case request.ContentLength > 0 && hasBody:
		add("content-length", strconv.FormatInt(request.ContentLength, 10))
	case !hasBody && (method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch):
		add("content-length", "0")
	}
	unzips = !asItIs && method != http.MethodHead && request.Header.Get("Accept-Encoding") == "" && request.Header.Get("Range") == ""
	if unzips {
		add("accept-encoding", "gzip")
	}
	return header, unzips, nil
}

// responseOf returns an answer without its body, nil if another one is to follow.
func responseOf(f *http2.MetaHeadersFrame) (*http.Response, error) {
	code, err := strconv.Atoi(f.PseudoValue("status"))
	switch {
	case err != nil || code < 100 || code > 999:
		return nil, errors.New("the answer has no valid status")
	case code == http.StatusSwitchingProtocols || code < 200 && f.StreamEnded():
		return nil, fmt.Errorf("the answer has the status %d", code)
	case code < 200:
		return nil, nil
	}
	response := &http.Response{
		Proto: "HTTP/2.0", ProtoMajor: 2,
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code),
		Header: make(http.Header, len(f.Fields)), ContentLength: -1,
	}
	for _, field := range f.RegularFields() {
		name := http.CanonicalHeaderKey(field.Name)
		response.Header[name] = append(response.Header[name], field.Value)
	}
	switch lengths := response.Header["Content-Length"]; {
	case len(lengths) == 1:
		length, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil {
			return nil, errors.New("the answer has no valid length")
		}
		response.ContentLength = int64(length) //nolint:gosec // 63 bits
	case len(lengths) > 1:
		return nil, errors.New("the answer has several lengths")
	case f.StreamEnded():
		response.ContentLength = 0
	}
	return response, nil
}
