public import Sanguine

/// A network that comes and goes when a test says so.
///
/// It says whether there is a network and carries nothing: what requests meet is the
/// ``ScriptedTransport``'s to say.
public struct ManualConnectivity: Connectivity {
    /// Whether there is a network.
    public let isOnline: Signal<Bool>

    /// Creates a network that is there, or is not.
    public init(isOnline: Bool = true) { self.isOnline = Signal(isOnline) }

    /// The network goes.
    public func disconnect() { isOnline.set(false) }

    /// The network comes back.
    ///
    /// When this returns, the client knows, and has begun to fetch what is to be fetched.
    public func connect() { isOnline.set(true) }
}
