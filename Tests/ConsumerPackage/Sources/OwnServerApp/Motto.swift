import Sanguine

struct Motto: FunctionCall {
    struct Input: Codable, Sendable { var question: String }
    typealias Output = String
    static let name = "motto"
    static let expectedCost: Int64 = 1  // Until real costs are known.
    let input: Input

    init(for habit: String) { input = Input(question: habit) }
}

func motto(for habit: String, from client: SanguineClient) async throws -> String {
    try await client.call(Motto(for: habit))  // The balance shows the hold at once.
}
