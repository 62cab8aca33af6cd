import Foundation
import Synchronization

/// Delivers events to an observer asynchronously, so that posting never waits.
///
/// Invariants:
///
/// 1. Events are delivered in the order in which they were posted, one at a time.
/// 2. At most ``MetricsLimits/waitingEvents`` wait. Further events are only counted, and their
///    number is delivered after the waiting ones.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held over the observer's code.
/// It may be taken under any other lock. The observer is called only on `queue`.
final class EventRelay: Sendable {
    private struct Guarded {
        var waiting: [ClientEvent] = []
        var overlooked = 0
        var isScheduled = false
    }

    private let observer: (any ClientObserver)?
    private let guarded = Mutex(Guarded())
    private let queue = DispatchQueue(label: "sanguine.observer", qos: .utility)

    init(observer: (any ClientObserver)?) { self.observer = observer }

    /// Enqueues an event; without an observer, the event is not even created.
    func post(_ event: @autoclosure () -> ClientEvent) {
        guard observer != nil else { return }
        let event = event()
        let mustSchedule = guarded.withLock { guarded in
            if guarded.waiting.count < MetricsLimits.waitingEvents {
                guarded.waiting.append(event)
            } else {
                guarded.overlooked += 1
            }
            defer { guarded.isScheduled = true }
            return !guarded.isScheduled
        }
        if mustSchedule { queue.async { self.drain() } }
    }

    /// Returns when all posted events are delivered.
    func flush() {
        queue.sync { drain() }
    }

    // Runs only on `queue`.
    private func drain() {
        while true {
            let batch = guarded.withLock { guarded in
                var batch = guarded.waiting
                if guarded.overlooked > 0 {
                    batch.append(.overlooked(events: guarded.overlooked))
                }
                guarded = Guarded(isScheduled: !batch.isEmpty)
                return batch
            }
            guard !batch.isEmpty else { return }
            for event in batch { observer?.clientDid(event) }
        }
    }
}
