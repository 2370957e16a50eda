"""Models, one file each: `build(image_px, num_classes) -> keras.Model`, ending in float32
logits.
"""
