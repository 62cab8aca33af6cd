import TestSupport
import Testing

@testable import Sanguine

/// Plays random events against the request queue and a model that searches its lists each time.
@Suite("Random request queues", .bounded(.seconds(300)))
struct RequestQueueFuzzTests {
    @Test(arguments: Fuzz.seeds(1...20))
    func `slots are never exceeded or idle, order is kept and no request starves`(
        seed: UInt64
    ) {
        let events = Fuzz.events(50_000)
        var model = RequestQueueModel(seed: seed)
        for event in 1...events {
            model.step()
            guard let fault = model.fault else { continue }
            Issue.record(
                Fuzz.replay(Self.self, seed: seed, "event \(event) (\(model.lastEvent)): \(fault)")
            )
            return
        }
        model.drain()

        let replay = Fuzz.replay(Self.self, seed: seed)
        #expect(model.fault == nil, replay)
        #expect(model.state.isIdle, replay)
        #expect(model.granted + model.refused + model.gaveUp == model.entered, replay)
        #expect(
            events < 1_000 || model.refused > events / 1_000 && model.gaveUp > events / 1_000,
            "The seed covers too little."
        )
    }
}
