import TestSupport
import Testing

@testable import Sanguine

/// Events for an app's analytics, and the outcomes of the outbox.
@Suite("Analytics of a client", .bounded)
struct ClientAnalyticsTests {
    @Test func `every stream receives the events in order`() async {
        let analytics = ClientAnalytics()
        var (first, second) = (
            analytics.events().makeAsyncIterator(), analytics.events().makeAsyncIterator()
        )
        analytics.post(.guestCreated)
        analytics.post(.balanceRead(isHit: true))

        #expect(await first.next() == .guestCreated)
        #expect(await first.next() == .balanceRead(isHit: true))
        #expect(await second.next() == .guestCreated)
    }

    @Test func `a stream ends with the client`() async {
        var analytics: ClientAnalytics? = ClientAnalytics()
        var events = analytics?.events().makeAsyncIterator()
        analytics = nil

        #expect(await events?.next() == nil)
    }

    @Test func `a slow reader loses the oldest events`() async {
        let analytics = ClientAnalytics()
        var events = analytics.events().makeAsyncIterator()
        analytics.post(.guestCreated)
        for _ in 1...MetricsLimits.waitingEvents { analytics.post(.quotaExhausted) }

        #expect(await events.next() == .quotaExhausted)
    }

    @Test func `the share of refused operations follows from the outcomes`() {
        let counters = OutboxCounters()
        #expect(counters.outcomes.refusedShare == nil)
        counters.count(performed: 999, refused: 1)

        #expect(counters.outcomes.refusedShare == 0.001)
        counters.reset()
        #expect(counters.outcomes == MetricsSummary.Outcomes())
    }
}
