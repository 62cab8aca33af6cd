import Foundation
import SanguineModel
import Testing

@testable import Sanguine

/// Merges fetched values into bases, without a client.
@Suite("Fetched bases")
struct FetchedBaseTests {
    struct Post: Codable, Sendable, Equatable {
        struct Comment: Codable, Sendable, Equatable {
            var id: Int
            var likes = 0
            var text = ""
        }

        var likes = 0
        var title = ""
        var big: UInt64 = 0
        var comments: [Comment] = []
        var seen: [Int] = []
    }

    private let query = ValueQuery<Post>("post") { _ in Post() }

    private func effect(
        _ sequence: Int64 = 1,
        sentAt: UInt64? = 1,
        acknowledgedAt: UInt64? = nil,
        _ body: @escaping @Sendable (inout Post) -> Void
    ) -> Effect {
        var effect = Effect(sequence: sequence, query: query.erased) { box, _ in
            guard var post = box.value(as: Post.self) else { return box }
            body(&post)
            return .of(post)
        }
        effect.sentAt = sentAt
        effect.acknowledgedAt = acknowledgedAt
        return effect
    }

    private func fetched(_ post: Post, over held: Post?, _ effects: Effect...) -> FetchedBase? {
        FetchedBase(
            .of(post),
            askedAt: 10,
            effects: effects,
            held: held.map { (.of($0), BaseMetadata()) },
            decode: query.erased.decode
        )
    }

    private func shown(_ base: FetchedBase?) -> Post? { base?.shown.value(as: Post.self) }

    @Test func `an answer contains a write that was applied before the request`() {
        let base = fetched(
            Post(likes: 5),
            over: Post(),
            effect(acknowledgedAt: 9) { $0.likes += 1 }
        )
        #expect(shown(base)?.likes == 5)
        #expect(base?.settled == [1])
    }

    @Test func `an answer does not contain a write that was not sent`() {
        let base = fetched(Post(likes: 5), over: Post(), effect(sentAt: nil) { $0.likes += 1 })
        #expect(shown(base)?.likes == 6)
    }

    @Test(arguments: [0, 1, 7])
    func `an adding effect keeps its own member and takes the rest of the answer`(likes: Int) {
        let base = fetched(
            Post(likes: likes, title: "New"),
            over: Post(),
            effect { $0.likes += 1 }
        )
        #expect(shown(base) == Post(likes: 1, title: "New"))
        #expect(base?.notes.isPatched == true)
    }

    @Test func `an effect with a condition is applied to the answer`() {
        let base = fetched(
            Post(likes: 7, title: "liked"),
            over: Post(),
            effect {
                guard $0.title != "liked" else { return }
                $0.title = "liked"
                $0.likes += 1
            }
        )
        #expect(shown(base) == Post(likes: 7, title: "liked"))
        #expect(base?.notes.isPatched == false)
    }

    @Test func `elements are matched by their ids`() {
        let held = Post(comments: [.init(id: 1), .init(id: 2)])
        let answer = Post(comments: [
            .init(id: 3), .init(id: 2, likes: 1, text: "New"), .init(id: 1),
        ])
        let base = fetched(
            answer,
            over: held,
            effect { post in
                for place in post.comments.indices where post.comments[place].id == 2 {
                    post.comments[place].likes += 1
                }
            }
        )
        #expect(shown(base) == answer)
    }

    @Test func `an appended element is shown once`() {
        let answer = Post(comments: [.init(id: 1, text: "New"), .init(id: 2)])
        let base = fetched(
            answer,
            over: Post(comments: [.init(id: 1)]),
            effect { $0.comments.append(.init(id: 2)) }
        )
        #expect(shown(base) == answer)
    }

    @Test func `elements without ids are kept unchanged`() {
        let base = fetched(
            Post(title: "New", seen: [1, 2, 3]),
            over: Post(seen: [1]),
            effect { $0.seen.append(2) }
        )
        #expect(shown(base) == Post(title: "New", seen: [1, 2]))
    }

    @Test func `an answer requested by an earlier process may contain that process's writes`() {
        // It is unknown which of the two was applied first.
        let done = effect(1, sentAt: nil, acknowledgedAt: 0) { $0.likes += 1 }
        let own = effect(2, sentAt: 0) { $0.likes += 1 }
        let base = FetchedBase(
            .of(Post(likes: 2)),
            askedAt: 0,
            of: 2,
            effects: [done, own],
            held: nil,
            decode: query.erased.decode
        )
        #expect(shown(base)?.likes == 2)
        #expect(base?.notes.possiblyApplied.operations == [1])
    }

    @Test func `without a previous value, the effect is deferred`() {
        let base = fetched(Post(likes: 1), over: nil, effect { $0.likes += 1 })
        #expect(shown(base)?.likes == 1)
        #expect(base?.notes.possiblyApplied.operations == [1])
    }

    @Test func `a settled write is part of the kept value`() {
        let base = fetched(
            Post(likes: 2),
            over: Post(),
            effect(acknowledgedAt: 9) { $0.likes += 1 },
            effect(2) { $0.likes += 1 }
        )
        #expect(shown(base)?.likes == 2)
        #expect(base?.settled == [1])
    }

    @Test func `a number beyond the range of a signed 64-bit integer survives a patch`() {
        let base = fetched(Post(big: .max), over: Post(), effect { $0.likes += 1 })
        #expect(shown(base)?.big == .max)
    }
}
