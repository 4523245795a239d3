"""A generative adversarial network: two models, two optimizers, one loop."""

from __future__ import annotations

from draw import Draw
from script import Script, block


def write_gan(draw: Draw, script: Script) -> str:
    """Write data and models; return the training code and the code that prints its results."""
    draw.axes |= {"task": "gan", "body": "two_players", "optimizer": "two_adams", "loop": "epochs"}
    width, steps = draw.number(16, 24), draw.number(24, 36)
    kind = draw.axis("loss", ["logistic", "hinge", "wasserstein_penalty"])
    script.definitions.append(
        block(f"""
        def mlp(inputs, outputs):
            first, last = nn.Linear(inputs, {width}), nn.Linear({width}, outputs)
            return nn.Sequential(first, nn.LeakyReLU(0.2), last)


        def real_samples(number):
            angle = 6.2832 * torch.rand(number)
            return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(number, 2)
        """)
    )
    match kind:
        case "logistic":
            judge = "F.softplus(-critic(real)).mean() + F.softplus(critic(fake)).mean()"
            fool = "F.softplus(-critic(fake)).mean()"
        case "hinge":
            judge = "F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()"
            fool = "-critic(fake).mean()"
        case _:
            script.definitions.append(
                block("""
                def penalty(real, fake):
                    share = torch.rand(len(real), 1)
                    between = (share * real + (1 - share) * fake).requires_grad_()
                    score = critic(between).sum()
                    (slope,) = torch.autograd.grad(score, between, create_graph=True)
                    return (slope.norm(dim=1) - 1).pow(2).mean()
                """)
            )
            judge = "critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)"
            fool = "-critic(fake).mean()"
    draw.axes["oddities"] = ""
    return block(f"""
        generator, critic = mlp(4, 2), mlp(2, 1)
        generator_optimizer = torch.optim.Adam(generator.parameters(), lr=0.002, betas=(0.5, 0.9))
        critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.002, betas=(0.5, 0.9))
        for step in range({steps}):
            counts["steps"] += 1
            real = real_samples(32)
            fake = generator(torch.randn(32, 4)).detach()
            critic_optimizer.zero_grad()
            critic_loss = {judge}
            critic_loss.backward()
            critic_optimizer.step()

            fake = generator(torch.randn(32, 4))
            generator_optimizer.zero_grad()
            generator_loss = {fool}
            generator_loss.backward()
            generator_optimizer.step()
            if step % 6 == 0:
                losses = critic_loss.item(), generator_loss.item()
                print(f"step {{step}}: critic {{losses[0]:.6f}} generator {{losses[1]:.6f}}")
        print("weights", fingerprint(generator.state_dict(), critic.state_dict()))
        print("state", fingerprint(generator_optimizer.state_dict(), critic_optimizer.state_dict()))
        """)
