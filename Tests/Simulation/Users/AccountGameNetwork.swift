import Foundation
import Sanguine
import SanguineTesting
import Synchronization

/// The network of the game of accounts, which loses the answer to a request with credentials.
///
/// Mutable state: `losesNext`, protected by a mutex.
final class AccountGameNetwork: StreamingTransport {
    private let authority: InMemoryAuthority
    private let losesNext = Mutex(false)

    init(_ authority: InMemoryAuthority) { self.authority = authority }

    /// Whether the next answer to a request that changes accounts or sessions is lost.
    var losesAnswer: Bool {
        get { losesNext.withLock { $0 } }
        set { losesNext.withLock { $0 = newValue } }
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let response = try await authority.send(request)
        let path = request.url.path()
        guard request.method == "POST",
            path.hasPrefix("/v1/accounts/") || path == "/v1/sessions"
        else { return response }
        let isLost = losesNext.withLock { losesNext in
            defer { losesNext = false }
            return losesNext
        }
        if isLost { throw .interrupted("lost") }
        return response
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await authority.stream(request)
    }
}
