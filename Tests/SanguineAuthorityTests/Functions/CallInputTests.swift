import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The checks of a call's content before its function receives it.
@Suite("Content of calls", .bounded)
struct CallInputTests {
    private let shared = FunctionRules(cache: .forever.public(sharing: "sign", "year"))

    private func check(
        _ input: JSONValue,
        _ rules: FunctionRules = FunctionRules(),
        attachments: [String]? = nil
    ) -> Problem? {
        refusal { () throws(Problem) in
            try CallInput.check(FunctionRequest(input: input, attachments: attachments), rules)
        }
    }

    @Test func `the limit of an input applies to its canonical form`() {
        let rules = FunctionRules(limits: FunctionLimits(inputBytes: 13))
        #expect(check(["a": "12345"], rules) == nil)
        let problem = check(["a": "123456"], rules)
        #expect(problem?.code == .invalidContent && problem?.detail.contains("13 bytes") == true)
    }

    @Test func `public answers depend only on members that may be shared`() {
        #expect(check(["sign": "leo", "year": 2026], shared) == nil)
        #expect(check([:], shared) == nil)
        for (input, name) in [
            (["sign": "leo", "name": "Ana"], "input.name"), (["birth": .null], "input.birth"),
        ] as [(JSONValue, String)] {
            let problem = check(input, shared)
            #expect(problem?.code == .invalidContent)
            #expect(problem?.detail.contains("'\(name)'") == true)
        }
        #expect(check("leo", shared)?.code == .invalidContent)
        #expect(check(["sign": "leo"], shared, attachments: ["a"])?.code == .invalidContent)
        #expect(check(["name": "Ana"], attachments: []) == nil)
    }

    @Test func `a call with members that may not be shared is refused without a hold`() async throws
    {
        let function = ScriptedFunction("f", shared)
        let world = CallWorld(function)
        let who = try await world.account()
        let refused = await world.answer(who, "k", ["name": "Ana"])
        #expect(refused.code == "invalid_content" && function.runCount == 0)
        #expect(try await world.balance(who).available == 100)
        let body = FunctionRequest<JSONValue>(input: ["name": "Ana"])
        let quote = await problem { () throws(Problem) in
            try await world.runner.quote("f", who, .success(body))
        }
        #expect(quote?.code == .invalidContent)
    }
}
