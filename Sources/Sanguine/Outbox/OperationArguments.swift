import Foundation
import SanguineModel

extension OutboxFile.Row {
    /// Whether both send the same thing to the backend: the same arguments, in the same lane.
    func isSame(as other: Self) -> Bool { arguments == other.arguments && lane == other.lane }

    /// Encodes an operation's members as they are stored and sent; dates and numbers use the
    /// encoder's defaults.
    ///
    /// - Throws: ``SanguineError`` if JSON cannot represent them, or they are too large.
    static func arguments(
        of operation: some Encodable,
        _ kind: OutboxFile.Kind
    ) throws(SanguineError) -> Data {
        let data: Data
        do {
            data = try JSONEncoder().encode(operation)
            // The Sanguine server refuses longer names; another backend has its own limits.
            if kind == .record { try JSONValue(written: Array(data)).check() }
        } catch {
            throw .problem(.unencodable(kind, error))
        }
        guard data.count <= RecordLimits.operationBytes else {
            throw .problem(
                Problem(.bodyTooLarge, "Keep an operation's arguments within 128 KiB of JSON.")
            )
        }
        return data
    }
}

extension Problem {
    fileprivate static func unencodable(_ kind: OutboxFile.Kind, _ error: any Error) -> Problem {
        let rule = "Give the \(kind) only members that JSON can encode."
        guard case .invalidValue(_, let context)? = error as? EncodingError else {
            return Problem(.mutatorFailed, rule)
        }
        let path = context.codingPath.map { $0.stringValue }.joined(separator: ".")
        return Problem(.mutatorFailed, "\(rule) '\(path)': \(context.debugDescription)")
    }
}
