import Hummingbird
import Logging
import NIOCore
import SanguineModel
import Synchronization

/// What travels with a request through middleware and handlers.
struct ServerContext: RequestContext {
    var coreContext: CoreRequestContextStorage

    /// The connection, which ends if a body takes too long.
    let channel: any Channel

    /// The peer's IP address, for the limit of calls without a token; never logged.
    var address: String { channel.remoteAddress?.ipAddress ?? "unknown" }

    /// What the handlers tell the frame around them.
    let exchange = Exchange()

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}

/// What a handler leaves behind for the frame, also when it throws.
final class Exchange: Sendable {
    // A class with a mutex: contexts are copied on their way in, and this must come back out.
    private struct State {
        var rate: RateDecision?
        var hasReadBody = false
        var account: Identifier?
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

    /// Whose token the request has, once that was looked at.
    var account: Identifier? {
        get { state.withLock { $0.account } }
        set { state.withLock { $0.account = newValue } }
    }
}
