import Hummingbird
import Logging
import NIOCore
import SanguineAuthority
import SanguineModel
import Synchronization

/// The context of a request in middleware and handlers.
struct ServerContext: RequestContext, Sendable {
    var coreContext: CoreRequestContextStorage

    /// The connection, which is closed if a body takes too long.
    let channel: any Channel

    /// The client's address for rate limits (see ``IPAddress/client``), which is never logged.
    private(set) var address = Self.unknown
    private static let unknown = "unknown"

    /// The id of the request in the log and in the header `x-request-id` of its response.
    let requestID: String

    /// State that handlers report to the surrounding ``ProblemMiddleware``.
    let exchange = Exchange()

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
        // A log handler that stores no metadata does not have Hummingbird's id either.
        let logged = source.logger[metadataKey: "hb.request.id"]?.description
        requestID = logged ?? RequestID().description
    }

    /// Returns the context with the address of the client: the peer, or as trusted proxies report.
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

/// State that a handler reports to ``ProblemMiddleware``, even when it throws.
final class Exchange: Sendable {
    // A class with a mutex, because contexts are copied while the state is shared.
    private struct State {
        var rate: RateDecision?
        var hasReadBody = false
        var account: Identifier?
        var isCounted = false
        var isUnread = false
        var streamedBytes: Int?
        var body: SharedPool.Permit?
        var administrator: Administrator?
    }

    private let state = Mutex(State())

    /// The result of the rate limit check, if it was made.
    var rate: RateDecision? {
        get { state.withLock { $0.rate } }
        set { state.withLock { $0.rate = newValue } }
    }

    /// Whether the whole body was read.
    var hasReadBody: Bool {
        get { state.withLock { $0.hasReadBody } }
        set { state.withLock { $0.hasReadBody = newValue } }
    }

    /// Whether the request was counted against the rate of its address.
    var isCounted: Bool {
        get { state.withLock { $0.isCounted } }
        set { state.withLock { $0.isCounted = newValue } }
    }

    /// Whether the request was refused because too many responses wait to be read.
    var isUnread: Bool {
        get { state.withLock { $0.isUnread } }
        set { state.withLock { $0.isUnread = newValue } }
    }

    /// The number of bytes of the response's body that are held in memory at once; `nil` if all of
    /// them are.
    var streamedBytes: Int? {
        get { state.withLock { $0.streamedBytes } }
        set { state.withLock { $0.streamedBytes = newValue } }
    }

    /// The bearer of the admin token, once it was checked.
    var administrator: Administrator? {
        get { state.withLock { $0.administrator } }
        set { state.withLock { $0.administrator = newValue } }
    }

    /// Keeps the reserved bytes of the body until the request is answered.
    func keep(_ permit: SharedPool.Permit) { state.withLock { $0.body = permit } }

    /// Reserves more bytes of the body until the request is answered.
    func reserve(
        _ count: Int,
        in pool: SharedPool,
        address: String
    ) throws(SharedPool.Refusal) {
        if let permit = state.withLock({ $0.body }) { return try permit.grow(by: count) }
        keep(try pool.acquire(count, account: account, address: address))
    }

    /// Releases the reserved bytes of the body.
    func leaveBody() {
        state.withLock { state in
            defer { state.body = nil }
            return state.body
        }?.release()
    }

    /// The account of the request's token, once the token was checked.
    var account: Identifier? {
        get { state.withLock { $0.account } }
        set { state.withLock { $0.account = newValue } }
    }
}
