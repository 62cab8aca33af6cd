public import Sanguine

/// A network that appears and disappears under a test's control.
///
/// It only signals whether there is a network; a ``ScriptedTransport`` determines what happens to
/// requests.
public struct ManualConnectivity: Connectivity {
    /// Whether there is a network.
    public let isOnline: Signal<Bool>

    /// Creates the signal of an available or unavailable network.
    public init(isOnline: Bool = true) { self.isOnline = Signal(isOnline) }

    /// Makes the network unavailable.
    public func disconnect() { isOnline.set(false) }

    /// Makes the network available again.
    ///
    /// When this returns, the client has been notified, and has started the fetches that are due.
    public func connect() { isOnline.set(true) }
}
