/// An observer of a client's events, for an app's own telemetry.
///
/// ```swift
/// struct Telemetry: ClientObserver {
///     func clientDid(_ event: ClientEvent) {
///         if case .flightEnded(let name, let duration, let code, _) = event {
///             record(name, duration, code)
///         }
///     }
/// }
///
/// configuration.observer = Telemetry()
/// ```
public protocol ClientObserver: Sendable {
    /// Called for each event, in order, on a separate queue.
    ///
    /// During the call, the client holds no lock and does not wait, so a slow observer delays only
    /// further events, of which at most ``MetricsLimits/waitingEvents`` wait. The observer may call
    /// the client.
    func clientDid(_ event: ClientEvent)
}

/// An event of a client.
///
/// An event contains names, durations and codes, but never parameters, ids, addresses or values.
/// The names are those of the app's queries, so do not use personal data in them.
public enum ClientEvent: Sendable, Hashable {
    /// A fetch began.
    case flightBegan(name: String)
    /// An attempt failed with a code, and the fetch is retried.
    ///
    /// The attempt is the number of the failed one, from 1.
    case flightRetried(name: String, attempt: Int, code: String)
    /// A fetch ended with `ok`, `cancelled`, or the ``SanguineError/code`` of its error.
    case flightEnded(name: String, duration: Duration, code: String, attempts: Int)
    /// One of the app's operations ended with `ok` or `failed`.
    ///
    /// See `SanguineClient.measure`.
    case measured(name: String, duration: Duration, code: String)
    /// Values were removed from memory to make room.
    case evicted(entries: Int)
    /// The disk cannot be used, and the client continues in memory; see ``StoreReport``.
    case storeDegraded
    /// The user signed out, and all of the user's data was removed.
    case signedOut
    /// Another user is current.
    case userChanged
    /// Events were left out because the observer was too slow.
    case overlooked(events: Int)
}
