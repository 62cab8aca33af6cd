#if canImport(Network)
import Dispatch
import Network
#endif

/// Reports whether there is a network.
///
/// This is a hint: requests are made even if it reports no network. The client uses it to fetch
/// again when the network is back, and to poll only while there is one. The default follows the
/// system on Apple's platforms; elsewhere there is always a network.
public protocol Connectivity: Sendable {
    /// Whether there is a network.
    var isOnline: Signal<Bool> { get }
}

/// A network that is always there.
public struct AlwaysOnline: Connectivity {
    /// Always true.
    public let isOnline = Signal(true)

    /// Creates the connectivity.
    public init() {}
}

#if canImport(Network)
/// The connectivity of Apple's platforms.
// Immutable; a monitor may be used from any thread, which not every SDK declares.
final class PathConnectivity: Connectivity, @unchecked Sendable {
    let isOnline = Signal(true)
    private let monitor = NWPathMonitor()

    init() {
        monitor.pathUpdateHandler = { [isOnline] path in
            isOnline.set(path.status == .satisfied)
        }
        monitor.start(queue: DispatchQueue(label: "sanguine.connectivity"))
    }

    deinit { monitor.cancel() }
}
#endif

/// The connectivity of this platform.
enum PlatformConnectivity {
    static let shared: any Connectivity = {
        #if canImport(Network)
        PathConnectivity()
        #else
        AlwaysOnline()
        #endif
    }()
}
