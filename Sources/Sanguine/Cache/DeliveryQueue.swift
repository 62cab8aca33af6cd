/// Notifies observers, with no lock held.
typealias Delivery = @Sendable () -> Void

/// The pending notifications of observers, in order.
///
/// One thread at a time delivers them, with no lock held, including those that are added during the
/// delivery. So observers see changes in their order, and a change that an observer makes is
/// delivered after the one that caused it.
struct DeliveryQueue {
    private var waiting: [Delivery] = []
    private var isDelivering = false

    var isEmpty: Bool { waiting.isEmpty }

    /// Whether no notification is pending or being delivered.
    var isIdle: Bool { waiting.isEmpty && !isDelivering }

    mutating func append(_ delivery: @escaping Delivery) { waiting.append(delivery) }

    /// Returns whether the caller must deliver the pending notifications.
    mutating func begin() -> Bool {
        guard !waiting.isEmpty, !isDelivering else { return false }
        isDelivering = true
        return true
    }

    /// Returns the next notifications for the delivering thread; empty at the end.
    mutating func next() -> [Delivery] {
        defer { waiting.removeAll(keepingCapacity: true) }
        if waiting.isEmpty { isDelivering = false }
        return waiting
    }
}
