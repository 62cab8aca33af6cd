/// Tells observers something, under no lock.
typealias Delivery = @Sendable () -> Void

/// What observers are still to be told, in its order.
///
/// One thread at a time tells it, under no lock; what comes meanwhile is told by that thread, too.
/// So observers hear of changes in their order, and a change that an observer makes is told after
/// the one that it was told of.
struct DeliveryQueue {
    private var waiting: [Delivery] = []
    private var isDelivering = false

    var isEmpty: Bool { waiting.isEmpty }

    /// Whether nothing waits, and nobody is being told anything.
    var isIdle: Bool { waiting.isEmpty && !isDelivering }

    mutating func append(_ delivery: @escaping Delivery) { waiting.append(delivery) }

    /// Whether the caller is to tell what waits.
    mutating func begin() -> Bool {
        guard !waiting.isEmpty, !isDelivering else { return false }
        isDelivering = true
        return true
    }

    /// What is to be told next, by whoever began; empty at the end.
    mutating func next() -> [Delivery] {
        defer { waiting.removeAll(keepingCapacity: true) }
        if waiting.isEmpty { isDelivering = false }
        return waiting
    }
}
