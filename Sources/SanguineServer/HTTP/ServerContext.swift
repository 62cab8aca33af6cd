import Hummingbird
import Logging
import NIOCore
import SanguineAuthority
import SanguineModel
import Synchronization

/// What travels with a request through middleware and handlers.
struct ServerContext: RequestContext {
    var coreContext: CoreRequestContextStorage

    /// The connection, which ends if a body takes too long.
    let channel: any Channel

    /// Who the request came from, for the limits of addresses: see ``IPAddress/client``; never
    /// logged.
    private(set) var address = Self.unknown
    private static let unknown = "unknown"

    /// What the handlers tell the frame around them.
    let exchange = Exchange()

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// The context of a request whose client is the peer, or whom trusted proxies name.
    func locating(_ request: Request, behind proxies: TrustedProxies) -> ServerContext {
        let peer = channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
        let client = proxies.client(
            behind: peer,
            forwarded: request.headers[values: .forwarded],
            forwardedFor: request.headers[values: .forwardedFor]
        )
        var context = self
        context.address = client?.client ?? Self.unknown
        return context
    }
}

/// What a handler leaves behind for the frame, also when it throws.
final class Exchange: Sendable {
    // A class with a mutex: contexts are copied on their way in, and this must come back out.
    private struct State {
        var rate: RateDecision?
        var hasReadBody = false
        var account: Identifier?
        var isCounted = false
        var isUnread = false
        var streamedBytes: Int?
        var body: SharedPool.Place?
    }

    private let state = Mutex(State())

    /// How the request stands to its rate limit, once that was looked at.
    var rate: RateDecision? {
        get { state.withLock { $0.rate } }
        set { state.withLock { $0.rate = newValue } }
    }

    /// Whether all of the body was taken in.
    var hasReadBody: Bool {
        get { state.withLock { $0.hasReadBody } }
        set { state.withLock { $0.hasReadBody = newValue } }
    }

    /// Whether the request was counted against the rate of its address.
    var isCounted: Bool {
        get { state.withLock { $0.isCounted } }
        set { state.withLock { $0.isCounted = newValue } }
    }

    /// Whether the request was refused because too many answers wait to be read.
    var isUnread: Bool {
        get { state.withLock { $0.isUnread } }
        set { state.withLock { $0.isUnread = newValue } }
    }

    /// What of the answer's body is in memory at a time; `nil` if all of it is.
    var streamedBytes: Int? {
        get { state.withLock { $0.streamedBytes } }
        set { state.withLock { $0.streamedBytes = newValue } }
    }

    /// Keeps the room of the body until the request is answered.
    func keep(_ place: SharedPool.Place) { state.withLock { $0.body = place } }

    /// Gives the room of the body back.
    func leaveBody() {
        state.withLock { state in
            defer { state.body = nil }
            return state.body
        }?.leave()
    }

    /// Whose token the request has, once that was looked at.
    var account: Identifier? {
        get { state.withLock { $0.account } }
        set { state.withLock { $0.account = newValue } }
    }
}
