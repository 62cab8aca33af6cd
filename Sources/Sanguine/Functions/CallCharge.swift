import SanguineModel
import Synchronization

/// The part of a function's answer that does not depend on the function.
struct CallCharge: Decodable {
    let charged: Int64
    let tokensRemaining: Int64
    let held: Int64
    let head: Int64
    let cached: Bool
    let quota: Quota?

    /// Returns the answer's statement about the balance.
    ///
    /// - Parameter tokensInstead: The cost of the call in tokens if its quota is used up.
    /// - Returns: The charge, and the balance after it.
    func answer(tokensInstead: Int64?) -> CallCost {
        CallCost(
            charged: charged,
            available: tokensRemaining,
            held: held,
            head: head,
            cached: cached,
            tokensInstead: quota == nil ? min(charged, tokensInstead ?? 0) : 0
        )
    }
}

/// Records the `Sanguine-Head` of answers, including refusals, and passes everything on.
final class HeadRecordingTransport: HTTPTransport {
    /// A number, and its epoch.
    typealias Head = (head: Int64?, epoch: Epoch?)

    private let transport: any HTTPTransport
    // The only mutable state, guarded by the mutex.
    private let recorded = Mutex<Head>((nil, nil))

    init(_ transport: any HTTPTransport) { self.transport = transport }

    /// The number and epoch of the last answer, if it had them.
    var last: Head { recorded.withLock { $0 } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let response = try await transport.send(request)
        let head = response.header("sanguine-head").flatMap { Int64($0) }
        recorded.withLock { $0 = (head, response.epoch) }
        return response
    }
}

extension TransportResponse {
    /// `Sanguine-Epoch`: the epoch of the numbers in the answer, or in the events that follow.
    var epoch: Epoch? { header("sanguine-epoch").flatMap { Epoch($0) } }
}
