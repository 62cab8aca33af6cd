package import SanguineModel

/// Parts of a feed as the events of a live connection (WHATWG HTML, section 9.2.6).
package enum LiveEvents {
    /// The events of a part.
    ///
    /// - Parameters:
    ///   - answer: The part.
    ///   - number: The number up to which the reader had everything.
    /// - Returns: The bytes; none if there is nothing new.
    package static func bytes(of answer: PullAnswer, after number: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        if answer.reset {
            // With the id a reader that loses the connection here does not skip the beginning.
            bytes += "event: reset\nid: 0\ndata: {}\n\n".utf8
        }
        for change in answer.changes {
            bytes += "event: change\nid: \(change.seq)\ndata: ".utf8
            bytes += AnswerEncoder.encode(LiveChange(change, head: answer.head))
            bytes += "\n\n".utf8
        }
        let last = answer.changes.last?.seq ?? (answer.reset ? 0 : number)
        if answer.next > last {
            // No event: it only moves the place to resume from past numbers that have no record.
            bytes += "id: \(answer.next)\n\n".utf8
        }
        return bytes
    }
}
