import Foundation
import SanguineAuthority
public import SanguineModel

/// A call with an answer, for which a function changes records of the account.
public struct CompletedFunction<Call: FunctionCall>: Sendable {
    /// The idempotency key of the call, which the app knows as well.
    public let key: String
    /// The input of the call.
    public let input: Call.Input
    /// The files of the call.
    public let attachments: [BlobFacts]
    /// The output of the call.
    public let output: Call.Output
    /// The profile of the account, whose records change.
    public let account: Account
    /// The time at which the answer is stored.
    public let at: Timestamp

    /// The day of ``at`` in the account's calendar.
    public var day: CalendarDay {
        CalendarDay(containing: at, in: TimeZone(identifier: account.timeZone) ?? .gmt)
    }
}

extension ServerFunction {
    /// Returns the function with records that change in the transaction that charges a call and
    /// stores its answer.
    ///
    /// ```swift
    /// let translate = ServerFunction(asking: Translate.self) {
    ///     "Translate into \($0.to): \($0.text)"
    /// }
    /// .recording(Translate.self) { call in
    ///     [SaveTranslation(id: try RecordID(derivedFrom: call.key), text: call.output)]
    /// }
    /// ```
    ///
    /// The records are those of the account that calls, and change as by an operation of one of its
    /// devices: all of its devices receive them in the feed, and the answer names the number of the
    /// feed that contains them. A repetition of the call changes nothing. A call that fails, or
    /// whose server crashes before its end is stored, has changed nothing.
    ///
    /// If a mutation refuses, the call fails with its refusal, and nothing is charged; a call whose
    /// caller may have seen a part of the answer is charged as one that is cut short.
    ///
    /// - Parameters:
    ///   - type: The call of the function.
    ///   - mutations: Returns the mutations for a completed call, at most 16, which change at most
    ///     100 records of 256 KiB in all. It uses only its parameter, because it may be called
    ///     repeatedly, and must return quickly.
    /// - Returns: The function.
    public func recording<Call: FunctionCall>(
        _ type: Call.Type,
        _ mutations:
            @escaping @Sendable (CompletedFunction<Call>) throws -> [any RecordMutation]
    ) -> ServerFunction {
        recording(Call.name) { RecordingFunction(function: $0, mutations: mutations) }
    }
}

/// A function whose calls change records.
private struct RecordingFunction<Call: FunctionCall>: MeteredFunction {
    let function: any MeteredFunction
    let mutations: @Sendable (CompletedFunction<Call>) throws -> [any RecordMutation]

    var name: String { function.name }
    var rules: FunctionRules { function.rules }
    var inputs: [String: String] { function.inputs }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        var call = try function.prepare(input)
        let (value, attachments) = (input.value, input.attachments)
        call.records = { [mutations] output in
            let input = try StoredForm.arguments.decode(Call.Input.self, from: value)
            let output = try output.decoded(as: Call.Output.self)
            return { completed in
                try mutations(
                    CompletedFunction(
                        key: completed.key,
                        input: input,
                        attachments: attachments,
                        output: output,
                        account: completed.account,
                        at: completed.at
                    )
                )
            }
        }
        return call
    }
}
