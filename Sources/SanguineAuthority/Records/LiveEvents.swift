package import SanguineModel

/// Encodes pages of a feed as server-sent events (WHATWG HTML, section 9.2.6).
package enum LiveEvents {
    /// Returns the events of a page.
    ///
    /// - Parameters:
    ///   - answer: The page.
    ///   - number: The number of the last change that the reader had before.
    /// - Returns: The bytes; empty if there is nothing new. Among changes with the same number only
    ///   the last has an `id`, so that a reader that resumes in between receives all of them again.
    package static func bytes(of answer: PullAnswer, after number: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        if answer.reset {
            // Without the id, a reader that loses the connection here would skip the beginning.
            bytes += "event: reset\nid: \(id(0, answer))\ndata: {}\n\n".utf8
        }
        let start = answer.reset ? 0 : number
        for (index, change) in answer.changes.enumerated() {
            bytes += "event: change\n".utf8
            let isLast = index + 1 == answer.changes.count
            let isEnd = isLast || answer.changes[index + 1].seq != change.seq
            // Switches have the reader's own number.
            if isEnd, change.seq > start {
                bytes += "id: \(id(change.seq, answer))\n".utf8
            }
            bytes += "data: ".utf8
            bytes += ResponseEncoder.encode(LiveChange(change, head: answer.head))
            bytes += "\n\n".utf8
        }
        let last = answer.changes.last?.seq ?? start
        if answer.next > last {
            // An id without an event moves the reader past numbers that have no records.
            bytes += "id: \(id(answer.next, answer))\n\n".utf8
        }
        return bytes
    }

    /// Returns the events of collections whose lists have changed.
    ///
    /// They have no `id`: a reader that misses one requests its lists when it connects again.
    package static func bytes(ofChangedLists names: [String]) -> [UInt8] {
        names.flatMap { name in
            let data = ResponseEncoder.encode(ChangedList(collection: name))
            return Array("event: list\ndata: ".utf8) + data + Array("\n\n".utf8)
        }
    }

    private static func id(_ number: Int64, _ answer: PullAnswer) -> FeedMark {
        FeedMark(epoch: answer.epoch, number: number)
    }
}
