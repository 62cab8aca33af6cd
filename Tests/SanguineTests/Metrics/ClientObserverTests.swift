import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The events that an app's telemetry receives, and the data that it never receives.
@Suite("Client observer", .bounded)
struct ClientObserverTests {
    private let clock = ManualClock()
    private let observer = RecordingObserver()

    private func make() -> ClientMetrics {
        ClientMetrics(clock: clock, observer: observer, logger: .silent)
    }

    @Test func `an observer receives a fetch with its duration, outcome and attempts`() {
        let metrics = make()
        let named = metrics.named("profile")
        let ticket = named.fetchBegan()
        clock.advance(by: .milliseconds(300))
        named.fetchRetried(afterAttempt: 1, failedWith: .transport(.timedOut))
        clock.advance(by: .milliseconds(200))
        named.fetchEnded(ticket, outcome: .completed, attempts: 2)
        metrics.relay.flush()

        #expect(
            observer.events == [
                .flightBegan(name: "profile"),
                .flightRetried(name: "profile", attempt: 1, code: "timed_out"),
                .flightEnded(
                    name: "profile",
                    duration: .milliseconds(500),
                    code: "ok",
                    attempts: 2
                ),
            ]
        )
    }

    @Test func `a slow observer delays no caller, and dropped events are counted`() {
        let metrics = make()
        let surplus = 10
        // The posting thread is not blocked; otherwise this would never end.
        observer.whileStuck {
            for _ in 0..<MetricsLimits.waitingEvents * 2 + surplus {
                metrics.notifyObserver(.storeDegraded)
            }
        }
        metrics.relay.flush()
        let missed = observer.events.reduce(0) { sum, event in
            if case .overlooked(let count) = event { sum + count } else { sum }
        }
        let degraded = observer.events.count { $0 == .storeDegraded }

        #expect(missed >= surplus)
        #expect(degraded + missed == MetricsLimits.waitingEvents * 2 + surplus)
    }

    @Test func `an observer is notified when the user changes`() throws {
        let account = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa")
        let test = try TestClient { $0.observer = observer }
        test.client.users.switchUser(to: nil)
        test.client.users.switchUser(to: account)
        test.client.metrics.relay.flush()

        #expect(
            observer.events.filter { [.signedOut, .userChanged].contains($0) }
                == [.signedOut, .userChanged]
        )
    }

    @Test(arguments: ["Ada Lovelace", "ada@example.org", String(repeating: "a", count: 65)])
    func `an invalid code of a backend is not reported`(code: String) {
        let metrics = make()
        let named = metrics.named("profile")
        let problem = Problem(ProblemCode(rawValue: code), "Ada")
        named.fetchEnded(named.fetchBegan(), outcome: .failed(.problem(problem)))
        metrics.relay.flush()

        #expect(
            observer.events.last
                == .flightEnded(name: "profile", duration: .zero, code: "other", attempts: 1)
        )
    }

    @Test func `a measured operation returns its result and is reported`() async throws {
        let test = try TestClient { $0.observer = observer }
        let sum = test.client.measure("sum") {
            test.delay.advance(by: .milliseconds(3))
            return 1 + 2
        }
        let later = await test.client.measure("later") {
            await Task.yield()  // tidy: allow busy-wait: the operation suspends once.
            return "done"
        }
        test.client.metrics.relay.flush()

        #expect(sum == 3)
        #expect(later == "done")
        #expect(
            observer.events == [
                .measured(name: "sum", duration: .milliseconds(3), code: "ok"),
                .measured(name: "later", duration: .zero, code: "ok"),
            ]
        )
        #expect(test.client.metrics.summary().operations.map(\.name) == ["later", "sum"])
        #expect(test.client.metrics.summary().queries == [])
    }

    @Test func `a measured operation rethrows its error and counts as failed`() async throws {
        let test = try TestClient()
        let problem = SanguineError.closed
        #expect(throws: problem) {
            try test.client.measure("fails") { () throws(SanguineError) in throw problem }
        }
        await #expect(throws: problem) {
            try await test.client.measure("fails") { () async throws(SanguineError) in
                throw problem
            }
        }

        #expect(test.client.metrics.summary()[operation: "fails"]?.failures == 2)
    }

    @MainActor
    @Test func `an operation is measured on its caller's actor`() async throws {
        let test = try TestClient()
        var shown = 0
        await test.client.measure("show") {
            await Task.yield()  // tidy: allow busy-wait: the operation suspends once.
            MainActor.assertIsolated()
            shown += 1
        }

        #expect(shown == 1)
    }
}
