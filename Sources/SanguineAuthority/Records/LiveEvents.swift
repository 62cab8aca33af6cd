package import SanguineModel

/// Parts of a feed as the events of a live connection (WHATWG HTML, section 9.2.6).
package enum LiveEvents {
    /// The events of a part.
    ///
    /// - Parameters:
    ///   - answer: The part.
    ///   - number: The number up to which the reader had everything.
    /// - Returns: The bytes; none if there is nothing new. Of the changes that share a number only
    ///   the last has an `id`: a reader that resumes between them is given them again.
    package static func bytes(of answer: PullAnswer, after number: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        if answer.reset {
            // With the id a reader that loses the connection here does not skip the beginning.
            bytes += "event: reset\nid: \(id(0, answer))\ndata: {}\n\n".utf8
        }
        for (index, change) in answer.changes.enumerated() {
            bytes += "event: change\n".utf8
            let isLast = index + 1 == answer.changes.count
            if isLast || answer.changes[index + 1].seq != change.seq {
                bytes += "id: \(id(change.seq, answer))\n".utf8
            }
            bytes += "data: ".utf8
            bytes += AnswerEncoder.encode(LiveChange(change, head: answer.head))
            bytes += "\n\n".utf8
        }
        let last = answer.changes.last?.seq ?? (answer.reset ? 0 : number)
        if answer.next > last {
            // No event: it only moves the place to resume from past numbers that have no record.
            bytes += "id: \(id(answer.next, answer))\n\n".utf8
        }
        return bytes
    }

    private static func id(_ number: Int64, _ answer: PullAnswer) -> FeedMark {
        FeedMark(epoch: answer.epoch, number: number)
    }
}
