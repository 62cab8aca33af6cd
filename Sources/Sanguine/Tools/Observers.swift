import Synchronization

/// Those who are told of something until they leave.
///
/// A value that its owner guards. Whoever is to be told is taken out under the owner's lock, with
/// ``crowd()``, and told under none.
struct Observers<Message>: Sendable {
    /// Somebody who is told.
    final class Observer: Sendable {
        private let tell: @Sendable (Message) -> Void
        fileprivate let finish: @Sendable () -> Void
        private let hasLeft = Atomic(false)

        /// - Parameters:
        ///   - tell: Is called with each message.
        ///   - finish: Is called when there will be no more. Default: nothing.
        init(
            tell: @escaping @Sendable (Message) -> Void,
            finish: @escaping @Sendable () -> Void = {}
        ) {
            self.tell = tell
            self.finish = finish
        }

        fileprivate func leave() { hasLeft.store(true, ordering: .releasing) }

        /// Is told, unless it has left.
        func hear(_ message: Message) {
            // Who leaves while the others are told hears no more.
            if !hasLeft.load(ordering: .acquiring) { tell(message) }
        }
    }

    /// All observers of one moment.
    // Unchecked: an observer is constant, and `kept` keeps all of them alive.
    struct Crowd: @unchecked Sendable {
        private let kept: [UInt64: Observer]
        // Unmanaged: to count the references of a thousand takes longer than to tell them.
        private let all: [Unmanaged<Observer>]

        fileprivate init(_ observers: [UInt64: Observer]) {
            kept = observers
            all = observers.values.map { Unmanaged.passUnretained($0) }
        }

        /// Tells all who have not left.
        func tell(_ message: Message) {
            withExtendedLifetime(kept) {
                for observer in all { observer._withUnsafeGuaranteedRef { $0.hear(message) } }
            }
        }

        /// Says that there will be no more messages.
        func finish() { for observer in kept.values { observer.finish() } }
    }

    private var observers: [UInt64: Observer] = [:] { didSet { known = nil } }
    private var lastNumber: UInt64 = 0
    /// Made of ``observers`` when they are told, and kept until others come or one leaves.
    private var known: Crowd?

    var isEmpty: Bool { observers.isEmpty }

    /// Adds an observer under a number that none has had.
    mutating func add(_ observer: Observer, as number: UInt64) { observers[number] = observer }

    /// Adds an observer.
    ///
    /// - Returns: Its number, for ``remove(_:)``.
    mutating func add(_ observer: Observer) -> UInt64 {
        lastNumber += 1
        observers[lastNumber] = observer
        return lastNumber
    }

    /// Removes an observer: it is told nothing but what is being told at that moment.
    mutating func remove(_ number: UInt64) { observers.removeValue(forKey: number)?.leave() }

    /// All observers, to tell them under no lock.
    mutating func crowd() -> Crowd {
        let crowd = known ?? Crowd(observers)
        known = crowd
        return crowd
    }

    /// Takes all observers out.
    mutating func takeAll() -> Crowd {
        defer { observers = [:] }
        return crowd()
    }
}
