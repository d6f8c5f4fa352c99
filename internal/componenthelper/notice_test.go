package componenthelper

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestASubscriberIsCalledOnceForManyNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notices Notices
		notices.Notify() // there are no subscribers
		var first, second atomic.Int64
		calls := func() []int64 { return []int64{first.Load(), second.Load()} }
		end := notices.Subscribe(func() { first.Add(1) })
		defer notices.Subscribe(func() { second.Add(1) })()
		synctest.Wait()
		notices.Notify()
		synctest.Wait()
		assert.Equal(t, []int64{1, 1}, calls(), "at once")
		for range 1000 {
			notices.Notify()
		}
		synctest.Wait()
		assert.Equal(t, []int64{1, 1}, calls(), "not yet")
		time.Sleep(time.Minute)
		assert.Equal(t, []int64{2, 2}, calls())
		end()
		end() // unsubscribe may be called more than once
		notices.Notify()
		time.Sleep(time.Minute)
		assert.Equal(t, []int64{2, 3}, calls())
	})
}

func TestUnsubscribeWaitsForTheSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notices Notices
		done := false
		end := notices.Subscribe(func() {
			time.Sleep(time.Minute)
			done = true
		})
		notices.Notify()
		time.Sleep(time.Second)
		end()
		assert.True(t, done)
	})
}
