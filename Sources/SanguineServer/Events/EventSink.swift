import SanguineAuthority

/// The result of delivering a batch of events.
struct EventReceipt: Sendable {
    /// The documents of the events that were accepted.
    var delivered: [String] = []
    /// The documents of the events that the receiver refused as such.
    var refused: [String] = []
    /// The subjects of the events that were not delivered, if the sink can tell.
    var failed: Set<String> = []
    /// The reason for which others were not delivered; `nil` if there are none.
    var failure: String?
}

/// A destination of events for analytics.
///
/// A sink accepts each event at least once. Of one subject, it accepts them in the order of the
/// batch, and none after one that failed.
protocol EventSink: Sendable {
    /// Delivers events.
    func deliver(_ events: [OutgoingEvent]) async -> EventReceipt
    /// Releases the resources.
    func close() async
}
