package testbed

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A client that watches, and connects again as soon as it is disconnected, keeps no server from ending.
func TestServersEndWhoseClientsConnectAgain(t *testing.T) {
	for range 20 {
		var connected atomic.Bool
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connected.Store(true)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		server.EnableHTTP2 = true
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		stop := Serve(server)
		var work sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		client := server.Client()
		for range 8 {
			work.Go(func() {
				for ctx.Err() == nil {
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
					if err != nil {
						return
					}
					if response, err := client.Do(request); err == nil {
						_, _ = io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
					}
				}
			})
		}
		NewWithT(t).Eventually(connected.Load).WithTimeout(time.Minute).Should(BeTrue())
		ended := make(chan struct{})
		go func() { defer close(ended); stop() }()
		NewWithT(t).Eventually(ended).WithTimeout(time.Minute).Should(BeClosed())
		cancel()
		work.Wait()
	}
}
