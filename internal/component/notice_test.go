package component

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestASubscriberIsCalledOnceForManyNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notices Notices
		notices.Give() // to nobody
		first, second := 0, 0
		end := notices.Subscribe(func() { first++ })
		defer notices.Subscribe(func() { second++ })()
		synctest.Wait()
		notices.Give()
		synctest.Wait()
		assert.Equal(t, []int{1, 1}, []int{first, second}, "at once")
		for range 1000 {
			notices.Give()
		}
		synctest.Wait()
		assert.Equal(t, []int{1, 1}, []int{first, second}, "not yet")
		time.Sleep(time.Minute)
		assert.Equal(t, []int{2, 2}, []int{first, second})
		end()
		end() // a second time
		notices.Give()
		time.Sleep(time.Minute)
		assert.Equal(t, []int{2, 3}, []int{first, second})
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
		notices.Give()
		time.Sleep(time.Second)
		end()
		assert.True(t, done)
	})
}
