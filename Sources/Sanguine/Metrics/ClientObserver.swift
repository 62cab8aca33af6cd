/// What an app's own telemetry implements to be told what the client does.
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
    /// Is told one event after the other, in their order, on a queue of its own.
    ///
    /// The client holds no lock and waits for nothing meanwhile, so an observer that takes its time
    /// delays no reader, only further events; at most ``MetricsLimits/waitingEvents`` of them wait.
    /// It may call the client.
    func clientDid(_ event: ClientEvent)
}

/// Something that a client did.
///
/// An event says names, durations and codes. It never says parameters, ids, addresses or values.
/// Names are those that the app declares its queries by: give them nothing personal.
public enum ClientEvent: Sendable, Hashable {
    /// A fetch took off.
    case flightBegan(name: String)
    /// An attempt failed with that code, and the fetch goes on with another one.
    ///
    /// The attempt is that which failed, from 1.
    case flightRetried(name: String, attempt: Int, code: String)
    /// A fetch ended: with `ok`, `cancelled`, or the ``SanguineError/code`` of its error.
    case flightEnded(name: String, duration: Duration, code: String, attempts: Int)
    /// An operation of the app's own ended, with `ok` or `failed`.
    ///
    /// See `SanguineClient.measure`.
    case measured(name: String, duration: Duration, code: String)
    /// So many values left the memory to make room.
    case evicted(entries: Int)
    /// The disk cannot be used, and the client goes on in memory; see ``StoreReport``.
    case storeDegraded
    /// The user signed out, and all that was theirs is gone.
    case signedOut
    /// Another user is there.
    case userChanged
    /// So many events were left out, because the observer was slower than they came.
    case overlooked(events: Int)
}
