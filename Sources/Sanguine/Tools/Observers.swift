import Synchronization

/// The observers of an event source.
///
/// A value without a lock of its own. The owner copies the observers under its lock with
/// ``snapshot()``, and calls them with no lock held.
struct Observers<Message>: Sendable {
    /// An observer.
    final class Observer: Sendable {
        private let tell: @Sendable (Message) -> Void
        fileprivate let finish: @Sendable () -> Void
        private let hasLeft = Atomic(false)

        /// - Parameters:
        ///   - tell: Called with each message.
        ///   - finish: Called when no more messages will follow. Default: does nothing.
        init(
            tell: @escaping @Sendable (Message) -> Void,
            finish: @escaping @Sendable () -> Void = {}
        ) {
            self.tell = tell
            self.finish = finish
        }

        fileprivate func remove() { hasLeft.store(true, ordering: .releasing) }

        /// Delivers a message, unless the observer was removed.
        func deliver(_ message: Message) {
            // An observer that is removed during a delivery gets no more messages.
            if !hasLeft.load(ordering: .acquiring) { tell(message) }
        }
    }

    /// All observers at one moment.
    // Unchecked: an observer is constant, and `kept` keeps all of them alive.
    struct Snapshot: @unchecked Sendable {
        private let kept: [UInt64: Observer]
        // Unmanaged, because retaining a thousand observers takes longer than calling them.
        private let all: [Unmanaged<Observer>]

        fileprivate init(_ observers: [UInt64: Observer]) {
            kept = observers
            all = observers.values.map { Unmanaged.passUnretained($0) }
        }

        /// Delivers a message to all observers that were not removed.
        func notify(_ message: Message) {
            withExtendedLifetime(kept) {
                for observer in all { observer._withUnsafeGuaranteedRef { $0.deliver(message) } }
            }
        }

        /// Notifies all observers that no more messages will follow.
        func finish() { for observer in kept.values { observer.finish() } }
    }

    private var observers: [UInt64: Observer] = [:] { didSet { known = nil } }
    private var lastNumber: UInt64 = 0
    /// Made from ``observers`` at a delivery, and kept until observers are added or removed.
    private var known: Snapshot?

    var isEmpty: Bool { observers.isEmpty }

    /// Adds an observer under a number that was never used.
    mutating func add(_ observer: Observer, as number: UInt64) { observers[number] = observer }

    /// Adds an observer.
    ///
    /// - Returns: Its number, for ``remove(_:)``.
    mutating func add(_ observer: Observer) -> UInt64 {
        lastNumber += 1
        observers[lastNumber] = observer
        return lastNumber
    }

    /// Removes an observer: it gets no messages after the one that is being delivered.
    mutating func remove(_ number: UInt64) { observers.removeValue(forKey: number)?.remove() }

    /// Returns all observers, to be called with no lock held.
    mutating func snapshot() -> Snapshot {
        let crowd = known ?? Snapshot(observers)
        known = crowd
        return crowd
    }

    /// Removes and returns all observers.
    mutating func removeAll() -> Snapshot {
        defer { observers = [:] }
        return snapshot()
    }
}
