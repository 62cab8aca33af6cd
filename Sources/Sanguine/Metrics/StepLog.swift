import Logging
import SanguineModel

/// Logs the steps of reads, calls and operations at debug level, and marks them as signposts.
///
/// There is no log if neither is enabled when the client is created, so that a step costs one check
/// of a constant. A line contains names that the app has declared, amounts, codes, the ids of
/// operations, and hashes of queries' keys. A hash is seeded for each process: it tells values of
/// one query apart, but its parameters cannot be found by trying. Lines never contain parameters,
/// arguments, values or addresses.
///
/// The logger is the app's code, so no method may be called under a lock.
final class StepLog: Sendable {
    /// A step; its name is the member `step` of the line's metadata.
    enum Step: String, Sendable, CaseIterable {
        /// A call began, and its predicted cost is held.
        case hold
        /// A call was answered, at a price.
        case charge
        /// A read got a value at once.
        case hit
        /// A read found no value, or a stale one, and a fetch begins.
        case miss
        /// A read waits for a fetch that another one has begun.
        case shared
        /// A value was removed from memory to make room.
        case evicted
        /// A request failed, and is sent again.
        case retried
        /// An operation is over: the server's values contain it.
        case settled
        /// The server refused an operation or a call.
        case refused
    }

    /// The subject of a step.
    enum Subject: Sendable {
        /// A query, with its key if the step is that of one value.
        case query(String, QueryKey? = nil)
        /// A call of a function, by its idempotency key.
        case call(String, key: String)
        /// An operation of the outbox.
        case operation(String, Identifier)
    }

    /// The message of all lines.
    static let message: Logger.Message = "step"

    private let logger: Logger

    /// Creates a log; `nil` if it would be empty.
    init?(_ logger: Logger) {
        guard logger.logLevel <= .debug || StepSignposts.areEnabled else { return nil }
        self.logger = logger
    }

    /// Logs a step.
    ///
    /// - Parameters:
    ///   - step: The step.
    ///   - subject: Its subject.
    ///   - amount: The amount that is held or charged.
    ///   - attempt: The number of the failed attempt.
    ///   - code: The code of the failure.
    func log(
        _ step: Step,
        _ subject: Subject,
        amount: Int64? = nil,
        attempt: Int? = nil,
        code: String? = nil
    ) {
        let (kind, name, key) =
            switch subject {
            case .query(let name, let key): ("query", name, key.map(\.pseudonym))
            case .call(let name, let key): ("function", name, key)
            case .operation(let name, let id): ("mutation", name, id.description)
            }
        StepSignposts.emit(step.rawValue, kind: kind, name: name, key: key ?? "-")
        guard logger.logLevel <= .debug else { return }
        var metadata: Logger.Metadata = [
            "step": "\(step.rawValue)", "kind": "\(kind)", "name": "\(name)",
        ]
        if let key { metadata["key"] = "\(key)" }
        if let amount { metadata["amount"] = "\(amount)" }
        if let attempt { metadata["attempt"] = "\(attempt)" }
        if let code { metadata["code"] = "\(code)" }
        logger.debug(Self.message, metadata: metadata)
    }
}

extension QueryKey {
    /// A number that stands for the key in this process, as 16 hexadecimal digits.
    fileprivate var pseudonym: String {
        let digits = String(UInt64(UInt(bitPattern: hashValue)), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
