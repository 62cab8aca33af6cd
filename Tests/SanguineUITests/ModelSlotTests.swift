import Sanguine
import TestSupport
import Testing

@testable import SanguineUI

/// When a view keeps its model, and when it gets another one.
@MainActor
@Suite("Model slot", .bounded)
struct ModelSlotTests {
    private final class Model {}

    private let slot = ModelSlot<Model>()
    private let client = SanguineClient.preview()

    @Test func `the same query of the same client keeps its model`() {
        var made = 0
        let models = (1...3).map { _ in
            slot.model(of: ModelIdentity("a"), from: client) { _ in
                made += 1
                return Model()
            }
        }

        #expect(made == 1)
        #expect(models[0] === models[2])
    }

    @Test(arguments: [
        ModelIdentity("b"), ModelIdentity("a", 1), ModelIdentity("a", "1"), ModelIdentity("", "a"),
    ])
    func `another query gets a new model, and the old one is released`(other: ModelIdentity) {
        weak let first = slot.model(of: ModelIdentity("a"), from: client) { _ in Model() }
        #expect(first != nil)
        _ = slot.model(of: other, from: client) { _ in Model() }

        #expect(first == nil)
    }

    @Test func `another client gets a new model`() {
        let first = slot.model(of: ModelIdentity("a"), from: client) { _ in Model() }
        let other = SanguineClient.preview()
        let second = slot.model(of: ModelIdentity("a"), from: other) { made in
            #expect(made === other)
            return Model()
        }

        #expect(first !== second)
    }

    @Test func `equal keys are equal only if they have the same type`() {
        #expect(ModelIdentity("a", 1...2) == ModelIdentity("a", 1...2))
        #expect(ModelIdentity("a", 1...2) != ModelIdentity("a", 1...3))
        #expect(ModelIdentity("a", 1) != ModelIdentity("a", "1"))
        #expect(ModelIdentity("a", 1).hashValue == ModelIdentity("a", 1).hashValue)
    }
}
