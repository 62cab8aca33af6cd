import SanguineModel

/// Reads the text of answers that end early.
struct PartialAnswers: Sendable {
    let authority: Authority

    /// Returns the stored beginning of a streamed answer, or `nil` if there is none.
    ///
    /// - Parameters:
    ///   - run: The run that produced it.
    ///   - end: The number of its parts. Default: all.
    ///   - last: Parts that are not stored yet, with the index of the first one. Default: none.
    /// - Returns: The text, shortened to the limit of a message.
    /// - Throws: the storage's error.
    func text(
        of run: Identifier,
        parts end: Int64 = .max,
        and last: (first: Int64, texts: [String])? = nil
    ) async throws(Problem) -> MessageContent? {
        var text = ""
        var index: Int64 = 0
        while index < min(end, last?.first ?? .max), text.utf8.count <= ThreadLimits.textBytes {
            let rows = try await authority.parts(of: run, from: index, limit: Self.partsPage)
            for row in rows {
                let skipped = Int(max(0, index - row.first))
                let count = Int(min(max(0, end - row.first), Int64(Int32.max)))
                text += row.parts.prefix(count).dropFirst(skipped).joined()
                index = max(index, row.first + Int64(row.parts.count))
            }
            guard rows.count == Self.partsPage else { break }
        }
        if let last, last.first < end {
            let skipped = Int(max(0, index - last.first))
            text += last.texts.prefix(Int(min(end - last.first, Int64(Int32.max))))
                .dropFirst(skipped).joined()
        }
        return text.isEmpty ? nil : MessageContent(.string(text))
    }

    /// Returns the end of the answer of a call that is lost; `nil` for a call without a thread.
    func end(of hold: HoldRow) async throws(Problem) -> MessageEnd? {
        guard let key = hold.operation, let id = ChatMessage.answer(of: key) else { return nil }
        let name = RecordName(ChatMessage.collection.name, in: hold.account, id)
        let loaded = try await authority.read { storage throws(StorageError) in
            try await storage.load([.record(name), .operation(hold.account, key: key)])
        }
        guard loaded.record(name)?.isLive == true else { return nil }
        guard let run = loaded.operation(hold.account, key: key)?.run else { return MessageEnd() }
        return MessageEnd(content: try await text(of: run))
    }

    private static let partsPage = 64
}

extension RunServices {
    /// Returns the end of a call's answer in a thread; `nil` for a call without a thread.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - end: The end of its run.
    ///   - parts: The number of parts that its readers receive. Default: all.
    /// - Returns: The end of the answer.
    func message(
        of call: RunningCall,
        _ end: RunEnd,
        parts: Int64 = .max
    ) async -> MessageEnd? {
        guard call.call.isInThread else { return nil }
        switch end {
        case .made(let output, _, let reason):
            return await MessageEnd(output: output, reason, for: call.call.account)
        case .cut:
            guard call.sharedRun.isStreamed else { return MessageEnd() }
            // Without its text, the message still says that it was cut.
            let content = try? await PartialAnswers(authority: authority).text(
                of: call.sharedRun.id,
                parts: parts,
                and: call.sharedRun.log.unstored()
            )
            return MessageEnd(content: content)
        case .failed, .withdrawn:
            return MessageEnd()
        }
    }
}
