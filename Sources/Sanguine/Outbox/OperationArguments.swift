import Foundation
import SanguineModel

extension OutboxFile.Row {
    /// Whether it is sent alike: it names the same ids, in the same lane.
    func isSame(as other: Self) -> Bool { arguments == other.arguments && lane == other.lane }

    /// An operation's members as they are kept and travel: dates and numbers are the encoder's own.
    ///
    /// - Throws: ``SanguineError`` if JSON cannot hold them, or they are too large.
    static func arguments(
        of operation: some Encodable,
        _ kind: OutboxFile.Kind
    ) throws(SanguineError) -> Data {
        guard let data = try? JSONEncoder().encode(operation) else {
            throw .problem(
                Problem(.mutatorFailed, "Make the \(kind)'s members such as JSON can hold.")
            )
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
    static let notInTray = Problem(.notFound, "Name an operation of the outbox's tray.")
    static let mayBeDone = Problem(
        .operationInProgress,
        "Wait for the operation's outcome: it was sent, and may be done."
    )
}
